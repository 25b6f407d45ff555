"""A foresight head as a small JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.storage import write_text_atomically
from memdecay.runtime.foresight.head import ForesightHead

FORESIGHT_FILE = "foresight.json"
_FORMAT_VERSION = 1
_NUMBERS = ("mean", "scale", "weights")
_FIELDS = frozenset(field.name for field in fields(ForesightHead))
_HINT = "make one with `memdecay foresee`"


def save_head(path: Path, head: ForesightHead) -> None:
    """Write a head.

    Raises:
        StorageError: The file could not be written.
    """
    content = {"version": _FORMAT_VERSION, **asdict(head)}
    for name in _NUMBERS:
        content[name] = [float(f"{number:.6g}") for number in content[name]]
    write_text_atomically(path, json.dumps(content) + "\n")


def load_head(path: Path) -> ForesightHead:
    """Read a head that `save_head` wrote.

    Raises:
        ArtifactError: The file is missing or is none.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArtifactError(f"{path} can't be read ({error.strerror}); {_HINT}") from error
    except ValueError as error:
        raise ArtifactError(f"{path} is not a JSON file ({error}); {_HINT}") from error
    try:
        return _head(content)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} is not a foresight head ({error}); {_HINT}") from error


def _head(content: Any) -> ForesightHead:
    if not isinstance(content, Mapping):
        raise TypeError(f"expected a JSON object, got {type(content).__name__}")
    if content.get("version") != _FORMAT_VERSION:
        raise ValueError(f"expected version {_FORMAT_VERSION}, got {content.get('version')!r}")
    if unknown := sorted(set(content) - _FIELDS - {"version"}):
        raise ValueError(f"unknown key {unknown[0]!r}")
    numbers = {name: tuple(float(number) for number in content[name]) for name in _NUMBERS}
    return ForesightHead(
        model=str(content["model"]),
        attention_weight=float(content["attention_weight"]),
        made_by=str(content.get("made_by", "")),
        **numbers,
    )
