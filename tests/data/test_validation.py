from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.errors import TraceError
from memdecay.data.jsonl import read_traces
from memdecay.data.validation import Severity, validate_file

WORDS = " ".join(f"word{i} number{i * 7}" for i in range(80))


def trace(name: str, *texts: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text} for text in texts or (f"text of {name}",)]
    return {"id": name, "messages": messages, **fields}


def write(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def found(path: Path, against: Path | None = None) -> set[tuple[str, int]]:
    return {(finding.code, finding.line) for finding in validate_file(path, against).findings}


def span(message: int, start: int, end: int, region: str = "key_decision") -> dict[str, Any]:
    return {"message": message, "start": start, "end": end, "region": region}


def test_every_broken_line_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "{", trace("ok"), {"id": "x"}, trace("y", spans="no"))
    assert {("json", 1), ("schema", 3), ("schema", 4)} <= found(path)
    assert validate_file(path).has_errors


def test_every_faulty_span_is_reported(tmp_path: Path) -> None:
    spans = [span(0, 0, 4), span(0, 2, 6), span(5, 0, 1), span(0, 0, 1, "nonsense"), span(0, 3, 99)]
    report = validate_file(write(tmp_path / "a.jsonl", trace("a", "long enough", spans=spans)))
    texts = [str(f) for f in report.findings if f.severity is Severity.ERROR]
    assert len(texts) == 4
    assert any("spans[3]" in text and "unknown region" in text for text in texts)
    assert any("overlap" in text for text in texts)
    assert texts[0].startswith(f"{tmp_path / 'a.jsonl'}:1: error: ")


def test_text_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'"\xff"\n')
    assert {("encoding", 1), ("empty", 0)} <= found(path)


def test_duplicates_and_growing_traces_are_reported(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        trace("a", "one", "two"),
        trace("b", "one", "two"),
        trace("c", "one"),
        trace("a", "one", "two", "three"),
    )
    codes = found(path)
    assert {("duplicate-trace", n) for n in (2, 3, 4)} | {("duplicate-id", 4)} <= codes


def test_a_long_text_in_many_traces_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *(trace(str(i), f"{i}", WORDS) for i in range(5)))
    assert ("repeated-text", 1) in found(path)
    assert not validate_file(path).has_errors


def test_gaps_and_missing_regions_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", trace("a", "0123456789", spans=[span(0, 0, 4)]), trace("b"))
    assert {("coverage", 1), ("balance", 0), ("unlabelled", 0)} <= found(path)


def test_a_trace_whose_spans_were_refused_does_not_count_as_unlabelled(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        trace("a", "0123456789", spans=[span(0, 0, 99)]),
        trace("b", "another one", spans=[span(0, 0, 9), span(0, 5, 11)]),
    )
    assert {code for code, _ in found(path)} == {"span", "overlap"}


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (trace("z", "text of a"), "leak-trace"),
        (trace("z", "else", task_id="a"), "leak-task"),
        (trace("z", f"{'open ' * 20}", "more"), "leak-opening"),
        (trace("z", "else", f"{WORDS} and an end of its own"), "leak-text"),
    ],
)
def test_leakage_is_an_error(tmp_path: Path, other: dict[str, Any], code: str) -> None:
    mine = {
        "leak-trace": trace("a"),
        "leak-task": trace("a"),
        "leak-opening": trace("a", f"{'open ' * 20}"),
        "leak-text": trace("a", "mine", f"A new start, {WORDS}"),
    }[code]
    codes = found(write(tmp_path / "a.jsonl", mine), write(tmp_path / "b.jsonl", other))
    assert (code, 1) in codes


def test_files_that_share_nothing_do_not_leak(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", trace("a"))
    codes = found(path, write(tmp_path / "b.jsonl", trace("b")))
    assert not any(code.startswith("leak") for code, _ in codes)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist"):
        validate_file(tmp_path / "none.jsonl")
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    with pytest.raises(TraceError, match="cannot be read"):
        validate_file(tmp_path / "bad.gz")


@pytest.mark.parametrize("code", ["schema", "duplicate-id"])
def test_of_many_findings_of_a_kind_the_rest_is_counted(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memdecay.data.validation.findings.MAX_FINDINGS", 10)
    bad: dict[str, Any] = {"id": "x"} if code == "schema" else trace("x", "one")
    report = validate_file(write(tmp_path / "a.jsonl", *([bad] * 30), trace("ok")))
    held = [finding for finding in report.findings if finding.code == code]
    assert len(held) == 10
    assert len(held) + report.further[code] == (30 if code == "schema" else 29)
    assert report.has_errors == (code == "schema")
    assert any(f"more findings of this kind [{code}]" in line for line in report.lines())
    assert report.to_dict()["further_findings"] == report.further


_MEASURE = """
import sys
from pathlib import Path
from memdecay.data.validation import fingerprints, validate_file
fingerprints.SAMPLE_SHARE = 1
assert validate_file(*map(Path, sys.argv[1:])).traces
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def peak_kilobytes(*paths: Path) -> int:
    """Return the most memory that a process takes that validates a file, database included.

    The figure of `getrusage` would not do: it begins at what the parent process has.
    """
    if not Path("/proc/self/status").exists():
        pytest.skip("the memory of a process is read from /proc, which this system lacks")
    command = [sys.executable, "-c", _MEASURE, *map(str, paths)]
    return int(subprocess.run(command, check=True, capture_output=True).stdout)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    lines = [trace(f"t{n}", *(f"{n} {part}" for part in range(24))) for n in range(6_000)]
    big, small = write(tmp_path / "big", *lines), write(tmp_path / "small", *lines[:50])
    # Within the size of the database's cache, all of it may lie in memory.
    assert peak_kilobytes(big) < peak_kilobytes(small) + 9_000


def test_memory_does_not_grow_with_the_other_file(tmp_path: Path) -> None:
    words = [" ".join(f"{word}of{n}" for word in range(250)) for n in range(1_000)]
    lines = [trace(f"t{n}", text) for n, text in enumerate(words)]
    big, small = write(tmp_path / "big", *lines), write(tmp_path / "small", *lines[:20])
    mine = write(tmp_path / "mine", trace("one", "else"))
    assert peak_kilobytes(mine, big) < peak_kilobytes(mine, small) + 9_000


def test_gold_has_no_errors(shared_dir: Path) -> None:
    report = validate_file(shared_dir / "gold" / "gold_dev.jsonl")
    assert report.traces == 263
    assert not report.has_errors


_VALUES = st.recursive(
    st.sampled_from(
        [None, True, -1, 10**30, float("nan"), "", "\ud800", "\0", "key_decision", {"text": "a"}]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "role", "content", "messages", "spans", "message", "start", "end", "region"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_VALUES, min_size=1, max_size=4))
def test_any_json_is_judged_and_what_passes_can_be_read(lines: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.jsonl", *map(json.dumps, lines))
        report = validate_file(path, path)
        codes = {finding.code for finding in report.findings}
        if codes.isdisjoint({"json", "schema", "span", "overlap", "encoding", "empty"}):
            assert sum(1 for _ in read_traces(path)) == report.traces
        else:
            assert report.has_errors


@pytest.mark.parametrize("depth", [100, 900, 990, 5_000])
@pytest.mark.parametrize("place", ["content", "arguments", "extra"])
def test_deep_nesting_is_judged(tmp_path: Path, depth: int, place: str) -> None:
    deep = "[" * depth + "]" * depth
    message = {
        "content": f'{{"role": "user", "content": {deep}}}',
        "arguments": f'{{"role": "assistant", "tool_calls": [{{"function": {deep}}}]}}',
        "extra": f'{{"role": "user", "content": "a", "more": {deep}}}',
    }[place]
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"messages": [{message}]}}\n')
    report = validate_file(path, path)
    assert report.traces == 1 or {"json", "empty"} <= {f.code for f in report.findings}
