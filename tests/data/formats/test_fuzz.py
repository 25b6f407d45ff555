from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdecay.classifier.errors import MemdecayError
from memdecay.data.formats.registry import all_formats
from memdecay.data.importing import TraceImport
from memdecay.data.jsonl import read_traces, write_traces
from tests.data.formats.samples import SAMPLES

_JUNK: tuple[Any, ...] = (
    *(None, 0, True, "", [], {}, "x", [[]], {"a": 1}, 1.5, 10**30, float("nan"), "\ud800"),
    *(float("inf"), 10**400, "\u2028\r\n\x85", "[" * 2_000, {"content": {"content": [None]}}),
    *("\0\x1b[31mred", {"type": "text"}, [{"type": "tool_use"}], {"role": 5}, {"role": []}),
)
_KEYS = ("role", "content", "type", "messages", "id", "tool_calls", "name", "arguments")


def _mutated(value: Any, rng: random.Random, rate: float) -> Any:
    """Drop, rename and replace values at random."""
    if rng.random() < rate:
        return rng.choice(_JUNK)
    if isinstance(value, list):
        return [_mutated(item, rng, rate) for item in value if rng.random() > rate]
    if isinstance(value, dict):
        kept = [(key, item) for key, item in value.items() if rng.random() > rate]
        names = [rng.choice(_KEYS) if rng.random() < rate / 2 else key for key, _ in kept]
        items = [_mutated(item, rng, rate) for _, item in kept]
        return dict(zip(names, items, strict=True))
    return value


def _mutated_line(line: bytes, rng: random.Random, rate: float) -> bytes:
    try:
        return json.dumps(_mutated(json.loads(line), rng, rate)).encode()
    except ValueError:
        return line


def _mutated_file(content: bytes, rng: random.Random) -> bytes:
    """Cut a file, flip bytes in it, save it otherwise, or mutate the JSON that it holds."""
    kind = rng.randrange(5)
    if kind == 0:
        return content[: rng.randrange(len(content) + 1)]
    if kind == 1:
        flipped = bytearray(content)
        for _ in range(rng.choice((1, 3, 30))):
            flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        return bytes(flipped)
    if kind == 2:
        return _saved_otherwise(content, rng)
    rate = rng.choice((0.02, 0.1, 0.3))
    whole = _mutated_line(content, rng, rate)
    if whole != content:
        return whole
    return b"\n".join(_mutated_line(line, rng, rate) for line in content.split(b"\n"))


def _saved_otherwise(content: bytes, rng: random.Random) -> bytes:
    """Save a file as another tool might: other encoding, line breaks or compression."""
    encoding = rng.choice(("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"))
    content = content.decode("utf-8", "replace").encode(encoding, "replace")
    content = content.replace(b"\n", rng.choice((b"\n", b"\r\n", b"\r", b"\0\n")))
    return rng.choice((content, gzip.compress(content), gzip.compress(content)[:-9]))


def _check(content: bytes, folder: Path, format_name: str | None = None) -> None:
    """Import the content: it must end in a report that tells what was written, or in our error."""
    path, out = folder / "file", folder / "out.jsonl"
    path.write_bytes(content)
    traces = TraceImport([path], format_name)
    try:
        count = write_traces(traces, out)
    except MemdecayError:
        return
    assert count == sum(report.traces for report in traces.reports)
    assert count == 0 or count == sum(1 for _ in read_traces(out))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.format}-{sample.name}")
def test_a_mutated_sample_never_ends_in_a_traceback(sample: Any, tmp_path: Path) -> None:
    rng = random.Random(sample.name)
    for _ in range(3):
        _check(_mutated_file(sample.content, rng), tmp_path, sample.format)
        _check(_mutated_file(sample.content, rng), tmp_path)


def test_a_mutated_real_file_never_ends_in_a_traceback(shared_dir: Path, tmp_path: Path) -> None:
    rng = random.Random(7)
    for path in sorted((shared_dir / "formats").rglob("*.*")):
        if path.is_file():
            _check(_mutated_file(path.read_bytes(), rng), tmp_path)


@pytest.mark.parametrize("name", all_formats())
def test_any_format_can_be_forced_on_any_file(name: str, tmp_path: Path) -> None:
    for content in (b"", b"\0", b"text\n> a\n", b"[[[]]]", b'{"messages": 5}', b'[{"a": {}}]'):
        _check(content, tmp_path, name)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 50_000,
        b"[" * 600 + b'{"role":"user","content":"a"}' + b"]" * 600,
        b'[{"role":"user","content":"a"},' + b"[" * 900 + b"]" * 900 + b"]",
        b'{"a":' * 50_000,
        b'{"messages":[{"role":"user","content":' + b"[" * 700 + b"]" * 700 + b"}]}",
        b'{"role":"user","content":{"a":' * 200 + b"1" + b"}}" * 200,
        b'[{"role":"user","content":"' + b"\\ud800" * 9 + b'"}]',
        b"1" * 9_000,
    ],
)
@pytest.mark.parametrize("name", [None, "openai-chat", "claude-code", "otel-genai", "memdecay"])
def test_deep_and_odd_json_never_ends_in_a_traceback(
    content: bytes, name: str | None, tmp_path: Path
) -> None:
    _check(content, tmp_path, name)


_VALUES = st.recursive(
    st.sampled_from(_JUNK) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from((*_KEYS, "from", "value", "message", "history", "steps", "attributes")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(value=_VALUES, name=st.sampled_from(list(all_formats())))
def test_any_json_never_ends_in_a_traceback(
    value: Any, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = f"{json.dumps(value)}\n{json.dumps([value])}".encode()
    _check(content, tmp_path_factory.getbasetemp(), name)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=st.binary(max_size=200), name=st.sampled_from([None, *all_formats()]))
def test_any_bytes_never_end_in_a_traceback(
    content: bytes, name: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _check(content, tmp_path_factory.getbasetemp(), name)
