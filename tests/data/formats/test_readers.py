from __future__ import annotations

import re
from pathlib import Path

import pytest

from memdecay.data.formats.registry import all_formats, recognise
from memdecay.data.formats.sample import read_sample
from memdecay.data.importing import TraceImport
from memdecay.data.trace import Trace
from tests.data.formats.samples import SAMPLES, FileSample


def _ids(sample: FileSample) -> str:
    return f"{sample.format}-{sample.name}"


def _import(sample: FileSample, folder: Path) -> list[Trace]:
    path = folder / sample.name
    path.write_bytes(sample.content)
    return list(TraceImport([path]))


def _find(name: str) -> FileSample:
    return next(sample for sample in SAMPLES if sample.name == name)


@pytest.mark.parametrize("sample", SAMPLES, ids=_ids)
def test_each_format_is_recognised_by_its_content(sample: FileSample, tmp_path: Path) -> None:
    path = tmp_path / "anything"
    path.write_bytes(sample.content)

    found = recognise(read_sample(path))

    assert found is not None
    assert found.name == sample.format


@pytest.mark.parametrize("sample", SAMPLES, ids=_ids)
def test_each_format_gives_its_conversations_in_order(sample: FileSample, tmp_path: Path) -> None:
    traces = _import(sample, tmp_path)

    roles = tuple("".join(m.role[0] for m in trace.messages) for trace in traces)
    assert roles == sample.roles


def test_every_format_has_a_sample() -> None:
    assert {sample.format for sample in SAMPLES} == set(all_formats())


def test_every_format_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "importing.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]

    assert set(re.findall("`(.*?)`", " ".join(rows[1:]))) == set(all_formats())


@pytest.mark.parametrize("sample", SAMPLES, ids=_ids)
def test_every_structured_call_is_paired_to_its_result(sample: FileSample, tmp_path: Path) -> None:
    for trace in _import(sample, tmp_path):
        ids = [call["id"] for message in trace.messages for call in message.tool_calls]
        answers = [dict(m.extra).get("tool_call_id") for m in trace.messages if m.role == "tool"]
        assert len(set(ids)) == len(ids)
        assert not ids or all(answer in ids for answer in answers)
