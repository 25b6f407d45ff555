from __future__ import annotations

from pathlib import Path

import pytest

from memdecay.data.generator import (
    PACKAGED_NUM_TRACES,
    PACKAGED_SEED,
    generate_traces,
    load_synthetic_traces,
    packaged_path,
)
from memdecay.data.generator.__main__ import main
from memdecay.data.jsonl import read_labelled_traces

REMEDY = (
    "regenerate it with: python -m memdecay.data.generator "
    "--out memdecay/data/resources/synthetic.jsonl.gz"
)


def test_packaged_file_is_what_the_generator_writes() -> None:
    generated = list(generate_traces(PACKAGED_NUM_TRACES, PACKAGED_SEED))

    assert load_synthetic_traces() == generated, REMEDY


def test_packaged_file_is_small() -> None:
    with packaged_path() as path:
        assert path.stat().st_size < 600_000


def test_command_writes_the_traces_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"

    main(["--num-traces", "3", "--seed", "9", "--out", str(path)])

    assert list(read_labelled_traces(path)) == list(generate_traces(3, 9))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-traces", "-2", "--out", "{folder}/runs.jsonl"], "num_traces must be 0 or above"),
        (["--out", "{folder}"], "{folder}"),
        ([], "--out"),
    ],
)
def test_command_says_what_is_wrong(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([argument.format(folder=tmp_path) for argument in arguments])

    assert caught.value.code == 2
    assert message.format(folder=tmp_path) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
