"""Data sets of the analysis runs: tables, rows and questions with exact answers."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.wording import Wording

_SETS = (
    ("shipments", "carrier", ("Nordpost", "Quickrail", "Blue Heron", "Ferrolink", "Parcelo", "Skiff & Sons"), "delay_hours", "hours of delay"),
    ("readings", "station", ("Alder", "Bridge 4", "Chapel", "Dam North", "Estuary", "Fern Pit"), "rain_mm", "rainfall"),
    ("invoices", "client", ("Oakline", "Petrichor", "Quarto", "Ridgeback", "Saltworks", "Tern"), "amount_eur", "invoiced amount"),
    ("sessions", "page", ("/start", "/prices", "/blog", "/docs", "/signup", "/help"), "seconds", "time on page"),
    ("harvests", "orchard", ("Upper Field", "Mill Side", "Old Wall", "Hill Top", "Low Creek", "South Gate"), "kilograms", "yield"),
    ("rides", "line", ("M1", "M2", "T5", "T9", "B40", "B62"), "passengers", "number of passengers"),
)  # fmt: skip
_BULK_COLUMNS = ("batch_ref", "loaded_at", "source_file", "checksum", "operator", "note")


@dataclass(frozen=True, slots=True)
class DataSet:
    """A table with one group column and one measured column.

    Attributes:
        table: Name of the table.
        group: Column to group by.
        measure: Column with numbers.
        meaning: The measure in words.
        totals: Sum of the measure for each group.
        bulk: Further columns.
    """

    table: str
    group: str
    measure: str
    meaning: str
    totals: dict[str, int]
    bulk: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        return ("id", "day", self.group, self.measure, *self.bulk)

    @property
    def largest(self) -> str:
        """Group with the largest total."""
        return max(self.totals, key=lambda name: self.totals[name])


def draw_data_set(wording: Wording) -> DataSet:
    """Return a table with different totals."""
    table, group, names, measure, meaning = wording.pick(_SETS)
    values = wording.rng.sample(range(120, 9900), len(names))
    return DataSet(
        table,
        group,
        measure,
        meaning,
        dict(zip(wording.shuffled(names), values, strict=True)),
        tuple(wording.some(_BULK_COLUMNS, 1, 4)),
    )


def sample_rows(wording: Wording, data: DataSet, count: int) -> list[tuple[object, ...]]:
    """Return rows of the table."""
    bulk = {
        "batch_ref": lambda: wording.code("bt-####-@"),
        "loaded_at": lambda: f"{people.day(wording)}T{people.clock(wording)}:00Z",
        "source_file": lambda: wording.code("export_####.csv"),
        "checksum": lambda: wording.code("~~~~~~~~"),
        "operator": lambda: wording.pick(people.LAST_NAMES).lower(),
        "note": lambda: wording.pick(["", "ok", "re-keyed", "see ticket", "n/a"]),
    }
    start = wording.number(1, 900)
    return [
        (
            start + i,
            people.day(wording),
            wording.pick(sorted(data.totals)),
            wording.number(1, 400),
            *(bulk[name]() for name in data.bulk),
        )
        for i in range(count)
    ]
