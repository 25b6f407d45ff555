"""Further parts of a report, made by whoever has something to add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        header: Names of the columns.
        rows: Cells, as many a row as there are columns; the first one names the row.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        """Check the widths.

        Raises:
            ValueError: A row has more or fewer cells than there are columns.
        """
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row must have {len(self.header)} cells, got {len(row)}")


@dataclass(frozen=True, slots=True)
class Section:
    """A part that a report shows behind its own ones, and keeps in its JSON.

    Attributes:
        key: Its name in the JSON's ``extensions`` and in links, a word.
        title: Its heading.
        paragraphs: What there is to say, in plain text.
        charts: Charts as SVG, trusted as they are: make them with
            `memdecay.training.calibration.page.drawing.to_svg`.
        table: A table under the charts.
        data: What the JSON keeps under the key.
    """

    key: str
    title: str
    paragraphs: tuple[str, ...] = ()
    charts: tuple[str, ...] = ()
    table: Table | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the key.

        Raises:
            ValueError: The key is no word.
        """
        if not self.key.isidentifier():
            raise ValueError(f"key must be a word of letters, digits and _, got {self.key!r}")
