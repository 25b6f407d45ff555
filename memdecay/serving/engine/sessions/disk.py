"""Idle sessions on disk: one file of tensors and one of JSON each, whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import uuid
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from memdecay.classifier.errors import MemdecayError, StorageError
from memdecay.classifier.storage import storage_errors, write_atomically, write_text_atomically

logger = logging.getLogger(__name__)

_FORMAT_VERSION = 1
_NAME = "[0-9a-f]{32}"
_RECORD = re.compile(rf"{_NAME}\.json")
_REST = re.compile(rf"{_NAME}\.{_NAME}\.safetensors|\.{_NAME}\.[a-z0-9.]+\.\w+\.tmp")


class DamagedSessionError(MemdecayError):
    """A session's files can't be used; the conversation has to be read again."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Where a session lies on disk.

    Attributes:
        record: The JSON file, which names the tensors' file and its digest.
        data: The tensors' file.
        size_bytes: Bytes of both.
        sha256: Digest of the tensors' file.
    """

    record: Path
    data: Path
    size_bytes: int
    sha256: str


class SessionFolder:
    """A folder of sessions, for one model, classifier and set of cache settings.

    Files that are not named as `write` names them are left alone. A folder is one server's at a
    time: another one would take its files for those of a server that has ended.

    The tensors are written first, under a new name; then the record takes its place in one step,
    and with it the session has moved. A crash at any moment leaves the old state or the new one,
    and at most files that nothing refers to, which the next `scan` removes.

    Args:
        folder: The folder; made where it is missing, for its owner's eyes only.
        fingerprint: Names what the tensors depend on; files with another one are removed.

    Raises:
        StorageError: The folder can't be made, or another server uses it.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder = folder
        self._fingerprint = fingerprint
        with storage_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
        self._unlock = weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._unlock()
            raise StorageError(
                f"{folder} holds the sessions of a server that runs; end it or choose another place"
            ) from error
        except OSError as error:
            logger.warning("%s can't be kept from other servers (%s)", folder, error)

    def close(self) -> None:
        """Leave the folder to other servers; nothing may be written behind."""
        self._unlock()

    def write(self, name: str, body: Mapping[str, Any], state: Mapping[str, Tensor]) -> StoredFile:
        """Write a session, in place of an older state of it.

        Args:
            name: A file name without suffix, of 32 hex digits, the same for the same session.
            body: What the record holds; plain data.
            state: Tensors on the CPU.

        Raises:
            ValueError: The name is none.
            StorageError: The disk is full or refuses.
        """
        if not re.fullmatch(_NAME, name):
            raise ValueError(f"name must have 32 hex digits, got {name!r}")
        record = self._folder / f"{name}.json"
        data = self._folder / f"{name}.{uuid.uuid4().hex}.safetensors"
        content = save_tensors(dict(state))
        digest = hashlib.sha256(content).hexdigest()
        text = self._record_text(body, data.name, digest)
        try:
            write_atomically(data, lambda temporary: _write_bytes(temporary, content))
            write_text_atomically(record, text)
        except StorageError:
            _delete(data)
            raise
        self._remove_data(name, keep=data.name)
        return StoredFile(record, data, len(content) + len(text), digest)

    def read(self, stored: StoredFile) -> dict[str, Tensor]:
        """Return a session's tensors.

        Raises:
            DamagedSessionError: They are gone, or not what was written.
        """
        try:
            content = stored.data.read_bytes()
        except OSError as error:
            raise DamagedSessionError(f"{stored.data.name} can't be read ({error})") from error
        if hashlib.sha256(content).hexdigest() != stored.sha256:
            raise DamagedSessionError(f"{stored.data.name} is damaged: its checksum differs")
        try:
            return dict(load_tensors(content))
        except SafetensorError as error:
            raise DamagedSessionError(f"{stored.data.name} is no tensor file") from error

    def remove(self, stored: StoredFile) -> None:
        """Delete a session's files; the record goes first, so that nothing half stays."""
        _delete(stored.record, stored.data)

    def scan(self) -> Iterator[tuple[StoredFile, dict[str, Any]]]:
        """Yield the sessions of an earlier run, and delete what can't be used."""
        used = set()
        for record in self._named(_RECORD):
            found = self._open_record(record)
            if found is None:
                _delete(record)
                continue
            used.add(found[0].data.name)
            yield found
        for path in self._named(_REST):
            if path.name not in used:
                _delete(path)

    def _named(self, names: re.Pattern[str]) -> list[Path]:
        return sorted(path for path in self._folder.iterdir() if names.fullmatch(path.name))

    def _record_text(self, body: Mapping[str, Any], data_name: str, digest: str) -> str:
        inner = json.dumps(
            {
                "format_version": _FORMAT_VERSION,
                "fingerprint": self._fingerprint,
                "data": data_name,
                "sha256": digest,
                "session": body,
            }
        )
        return json.dumps({"sha256": hashlib.sha256(inner.encode()).hexdigest(), "record": inner})

    def _open_record(self, path: Path) -> tuple[StoredFile, dict[str, Any]] | None:
        try:
            text = path.read_text(encoding="utf-8")
            content = _unwrap(json.loads(text))
            is_ours = (content["format_version"], content["fingerprint"]) == (
                _FORMAT_VERSION,
                self._fingerprint,
            )
            if not is_ours:
                logger.info("%s is of another model or setting and is deleted", path.name)
                return None
            data = self._folder / Path(content["data"]).name
            size_bytes = data.stat().st_size + len(text)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.warning("%s is damaged and is deleted (%s)", path.name, error)
            return None
        return StoredFile(path, data, size_bytes, content["sha256"]), content["session"]

    def _remove_data(self, name: str, keep: str) -> None:
        for path in self._folder.glob(f"{name}.*.safetensors"):
            if path.name != keep:
                _delete(path)


def _unwrap(outer: Mapping[str, Any]) -> dict[str, Any]:
    inner: str = outer["record"]
    if hashlib.sha256(inner.encode()).hexdigest() != outer["sha256"]:
        raise ValueError("its checksum differs")
    content: dict[str, Any] = json.loads(inner)
    return content


def _delete(*paths: Path) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s could not be deleted (%s)", path, error)


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
