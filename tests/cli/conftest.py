"""A tiny model on disk, labelled traces, and the command line as a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from memdecay.cli import main
from memdecay.data.generator import generate_traces
from memdecay.data.jsonl import write_traces
from tests.tiny import tiny_llama, tiny_tokenizer


@dataclass(frozen=True)
class Outcome:
    """What a command line did."""

    exit_code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The error in one line, whatever the width of the terminal."""
        return " ".join(self.err.split())


RunCommand = Callable[..., Outcome]


def exit_code(*arguments: object) -> int:
    """Run `memdecay` with arguments and return its exit code."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    code = stopped.value.code
    return code if isinstance(code, int) else int(code is not None)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Return a function that runs `memdecay` with arguments."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = exit_code(*arguments)
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny random model with its tokenizer."""
    folder = tmp_path_factory.mktemp("tiny-model")
    tiny_llama().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of short labelled traces."""
    path = tmp_path_factory.mktemp("traces") / "labelled.jsonl"
    short = [trace for trace in generate_traces(60, seed=5) if trace.num_characters < 3000]
    write_traces(short[:12], path)
    return path


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep hidden states out of the user's cache."""
    monkeypatch.setenv("MEMDECAY_CACHE", str(tmp_path / "cache"))
