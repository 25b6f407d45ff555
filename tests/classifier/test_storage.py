import hashlib
import resource
from pathlib import Path

import pytest

from memdecay.classifier.errors import StorageError
from memdecay.classifier.storage import file_sha256, write_atomically, write_text_atomically


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
