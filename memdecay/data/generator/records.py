"""Results of tools as labelled pieces: JSON records, tables, listings with few decisive lines."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from memdecay.data.generator.builder import Piece, context, finding

_SHORT_CHARACTERS = 220


def json_pieces(
    record: Mapping[str, Any], wanted: Collection[str], *, is_indented: bool = False
) -> tuple[Piece, ...]:
    """Write a record as JSON; the wanted fields are findings, the others bulk.

    A short record is a finding as a whole.
    """
    whole = json.dumps(record, indent=2 if is_indented else None)
    if len(whole) <= _SHORT_CHARACTERS or not record:
        return (finding(whole),)
    opening, closing = ("{\n  ", "\n}") if is_indented else ("{", "}")
    join = ",\n  " if is_indented else ", "
    pieces: list[Piece] = []
    for i, (key, value) in enumerate(record.items()):
        nested = json.dumps(value, indent=2 if is_indented else None).replace("\n", "\n  ")
        end = join if i < len(record) - 1 else closing
        text = f"{'' if i else opening}{json.dumps(key)}: {nested}{end}"
        pieces.append(finding(text) if key in wanted else context(text))
    return tuple(pieces)


def line_pieces(
    lines: Iterable[str], wanted: Collection[int], *, has_final_newline: bool = True
) -> tuple[Piece, ...]:
    """Write lines; those whose index is wanted are findings, the others bulk."""
    rows = list(lines)
    ends = ["\n"] * len(rows)
    if rows and not has_final_newline:
        ends[-1] = ""
    return tuple(
        finding(row + end) if i in wanted else context(row + end)
        for i, (row, end) in enumerate(zip(rows, ends, strict=True))
    )


def table_lines(header: Sequence[str], rows: Sequence[Sequence[object]], style: str) -> list[str]:
    """Return a table as lines, the header first.

    Args:
        header: Names of the columns.
        rows: Values, one row a sequence.
        style: ``pipe``, ``psql``, ``csv``, ``tuple`` or ``aligned``.

    Raises:
        ValueError: No table style has this name.
    """
    cells = [[str(value) for value in row] for row in rows]
    if style == "csv":
        return [",".join(row) for row in [list(header), *cells]]
    if style == "tuple":
        return [str(tuple(row)) for row in rows]
    widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]
    padded = [
        [value.ljust(width) for value, width in zip(row, widths, strict=True)]
        for row in [list(header), *cells]
    ]
    if style == "pipe":
        body = ["| " + " | ".join(row) + " |" for row in padded]
        return [body[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *body[1:]]
    if style == "psql":
        body = [" " + " | ".join(row) for row in padded]
        return [body[0], "-+-".join("-" * width for width in widths), *body[1:]]
    if style == "aligned":
        return ["  ".join(row).rstrip() for row in padded]
    raise ValueError(f"unknown table style {style!r}; expected pipe, psql, csv, tuple or aligned")
