import hashlib
import os
import resource
from pathlib import Path

import pytest

from memdecay.classifier.errors import StorageError
from memdecay.classifier.storage import (
    check_writable,
    file_sha256,
    write_atomically,
    write_text_atomically,
)


def test_text_is_written_and_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "note.txt"
    write_text_atomically(path, "héllo\n")
    assert path.read_text(encoding="utf-8") == "héllo\n"


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"big\.txt could not be written"):
            write_text_atomically(tmp_path / "big.txt", "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StorageError, match="could not be written"):
        write_text_atomically(tmp_path / "taken" / "note.txt", "x")


def test_digest_equals_hashlib(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    content = bytes(range(256)) * 9000
    path.write_bytes(content)
    assert file_sha256(path) == hashlib.sha256(content).hexdigest()


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "note.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_text_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Open at both ends, so that neither side waits.
    reader = os.open(pipe, os.O_RDWR)
    try:
        write_text_atomically(pipe, "hello")
        assert os.read(reader, 100) == b"hello"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_place_that_is_fine_is_accepted_and_not_created(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b.json")
    check_writable(tmp_path / "a" / "b", is_folder=True)
    assert list(tmp_path.iterdir()) == []


def test_folder_in_a_files_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is a folder, expected a file"):
        check_writable(tmp_path)


@pytest.mark.parametrize("name", ["taken", "taken/below/it"])
def test_file_in_a_folders_place_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StorageError, match="taken is a file, expected a folder"):
        check_writable(tmp_path / name, is_folder=True)


def test_forbidden_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StorageError, match="may not be written"):
        check_writable(tmp_path / "note.txt")
