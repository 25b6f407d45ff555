"""Parsing of JSON whose objects may have a key twice: of such values only the last is kept."""

from __future__ import annotations

import json
from typing import Any

from memdecay.data.formats.report import Notes


class RepeatCounter:
    """Counts the values that are lost because their key comes again in the same object.

    Attributes:
        decoder: Parses JSON and counts.
    """

    def __init__(self) -> None:
        # Control characters inside strings are allowed: many loggers write raw tabs.
        self.decoder = json.JSONDecoder(strict=False, object_pairs_hook=self._object)
        self._num_lost = 0

    def restart(self) -> None:
        """Forget what was counted: another text is parsed, or the same one anew."""
        self._num_lost = 0

    def note(self, notes: Notes, where: str = "") -> None:
        """Note what was counted since the restart."""
        notes.skip("value of a key that comes again in its object", self._num_lost, where)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            self._num_lost += sum(value != members[key] for key, value in pairs)
        return members
