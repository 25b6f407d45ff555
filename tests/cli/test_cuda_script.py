"""`benchmarks/cuda.sh` on a machine that seems to have a GPU, with stand-ins for what it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand
from tests.conftest import REPOSITORY
from tests.runtime.bench.test_speed import TINY_CONFIG

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")

MARK = ".".join(("mark", "cuda"))
"""In two words, or the script would find it here."""
PYTHON = """#!/bin/sh
if [ "$1" = -c ]; then echo {has_cuda}; else echo "python $*" >> {log}; {ending}; fi
"""
MEMDECAY = """#!/bin/sh
echo "memdecay $*" >> {log}
"""


def run_script(
    folder: Path, *, has_cuda: bool = True, ending: str = "exit 0", **environment: str
) -> tuple[int, list[list[str]]]:
    """Run the script; return its exit code and the commands that it ran."""
    log = folder / "log"
    for name, text in (("python", PYTHON), ("memdecay", MEMDECAY)):
        stand_in = folder / name
        stand_in.write_text(text.format(has_cuda=int(has_cuda), log=log, ending=ending))
        stand_in.chmod(0o755)
    done = subprocess.run(
        ["sh", str(REPOSITORY / "benchmarks" / "cuda.sh"), str(folder / "out")],
        env={**os.environ, "BIN": str(folder), **environment},
        capture_output=True,
        check=False,
        timeout=60,
    )
    lines = log.read_text().splitlines() if log.exists() else []
    return done.returncode, [line.split() for line in lines]


def test_all_tests_that_need_a_gpu_are_run_and_no_other_file_is_read(tmp_path: Path) -> None:
    code, (tests, *_) = run_script(tmp_path)

    assert code == 0
    marked = {
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        if MARK in path.read_text(encoding="utf-8")
    }
    assert tests[:6] == ["python", "-m", "pytest", "-m", "cuda", "-q"]
    assert set(tests[6:]) == marked
    assert "tests/runtime/test_cuda.py" in marked


def test_the_kernel_is_compared_by_a_program_that_is_there(tmp_path: Path) -> None:
    _, (_, kernel, _) = run_script(tmp_path)

    text = (REPOSITORY / kernel[1]).read_text(encoding="utf-8")
    options = [word for word in kernel[2:] if word.startswith("--")]
    assert options
    assert all(f'"{option}"' in text for option in options)


def test_the_benchmark_it_runs_works_where_a_tiny_model_takes_the_place(
    tmp_path: Path, command: RunCommand
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY_CONFIG))
    environment = {"CONFIG": str(config), "SEEN": "300,340", "BUDGET": "200"}
    _, commands = run_script(tmp_path, **environment)

    arguments = commands[-1][1:]
    assert arguments[:2] == ["bench", "speed"]
    on_cpu = {"cuda": "cpu", "bfloat16": "float32"}
    outcome = command(*(on_cpu.get(argument, argument) for argument in arguments), "--steps", 4)

    assert outcome.exit_code == 0, outcome.err
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert {row["policy"] for row in rows} == {
        *("DynamicCache", "full", "memdecay+no-fading", "memdecay")
    }


def test_by_default_it_is_an_8b_llama(tmp_path: Path) -> None:
    _, commands = run_script(tmp_path)

    benchmark = commands[-1]
    config = REPOSITORY / benchmark[benchmark.index("--random-weights") + 1]
    assert json.loads(config.read_text())["hidden_size"] == 4096


def test_without_a_gpu_nothing_is_run_and_nothing_fails(tmp_path: Path) -> None:
    assert run_script(tmp_path, has_cuda=False) == (0, [])


def test_what_fails_gives_its_exit_code_and_ends_the_script(tmp_path: Path) -> None:
    code, commands = run_script(tmp_path, ending="exit 3")

    assert code == 3
    assert len(commands) == 1
