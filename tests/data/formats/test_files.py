from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdecay.classifier.errors import TraceError
from memdecay.data.formats.files import open_file, text_lines, text_pieces
from memdecay.data.formats.report import Notes


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    content=st.binary(max_size=60) | st.text("aé中\U0001f600\ufffd\n", max_size=20).map(str.encode),
    num_bytes=st.integers(1, 9),
)
def test_pieces_give_what_decoding_the_file_whole_gives(
    content: bytes, num_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "file"
    path.write_bytes(b"a" + content)  # No mark of another encoding or compression.
    notes = Notes()

    text = "".join(text_pieces(path, notes, num_bytes))

    assert text == (b"a" + content).decode("utf-8", "replace")
    replaced = text.count("\ufffd") - content.count("\ufffd".encode())
    found = notes.repaired.get("byte that is no UTF-8 replaced")
    assert (found.count if found else 0) == replaced


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_pieces_and_lines_give_the_same_text(
    encoding: str, is_compressed: bool, tmp_path: Path
) -> None:
    text = "größe\r\n中文\n" * 50
    content = text.encode(encoding)
    (tmp_path / "a").write_bytes(gzip.compress(content) if is_compressed else content)

    assert "".join(text_pieces(tmp_path / "a", Notes(), 7)) == text
    assert "".join(text_lines(tmp_path / "a", Notes())) == text


def test_broken_compression_keeps_what_comes_before(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"abc" * 1_000)[:-12])
    notes = Notes()

    text = "".join(text_pieces(tmp_path / "a", notes))

    assert text
    assert ("abc" * 1_000).startswith(text)
    assert "rest of the file: its compressed data are broken" in notes.skipped


def test_a_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read .*: No such file"):
        open_file(tmp_path / "none")
