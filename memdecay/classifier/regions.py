"""The five memory regions of an agent trace and how each of them fades."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from memdecay.classifier.plain_data import mapping, plain_value


class Region(IntEnum):
    """What a token is for in an agent's run; the value is its index in every array."""

    SYSTEM_INSTRUCTION = 0
    KEY_DECISION = 1
    TOOL_SUMMARY = 2
    RECENT_DIALOGUE = 3
    ORDINARY_CONTEXT = 4

    @property
    def label(self) -> str:
        """The name used in files, reports and options, for example ``key_decision``."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> Region:
        """Return the region with this name.

        Raises:
            ValueError: No region has this name.
        """
        try:
            return _BY_LABEL[label]
        except KeyError:
            raise ValueError(
                f"unknown region {label!r}; expected one of {', '.join(REGION_LABELS)}"
            ) from None


REGION_LABELS: tuple[str, ...] = tuple(region.name.lower() for region in Region)
NUM_REGIONS = len(REGION_LABELS)
_BY_LABEL = {region.name.lower(): region for region in Region}


@dataclass(frozen=True, slots=True)
class RegionDecay:
    """How a region's tokens start and fade: score(age) = initial_score * exp(-decay * age).

    Attributes:
        initial_score: Score of a fresh token, above zero.
        decay: Decay factor per token of age, zero or above; zero never fades.
    """

    initial_score: float
    decay: float

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range or not finite.
        """
        if not (math.isfinite(self.initial_score) and self.initial_score > 0):
            raise ValueError(f"initial_score must be above 0, got {self.initial_score}")
        if not (math.isfinite(self.decay) and self.decay >= 0):
            raise ValueError(f"decay must be 0 or above, got {self.decay}")

    @property
    def half_life_tokens(self) -> float:
        """Age in tokens at which the score has halved; infinite where nothing fades."""
        return math.log(2) / self.decay if self.decay else math.inf


def _shipped(region: Region) -> RegionDecay:
    return RegionDecay(**_SHIPPED[region.label])


SHIPPED_FILE = Path(__file__).with_name("regions.toml")
"""The default table as `memdecay tune` wrote it, see the Makefile's ``regions``."""

_SHIPPED = tomllib.loads(SHIPPED_FILE.read_text(encoding="utf-8"))["regions"]


@dataclass(frozen=True, slots=True)
class RegionTable:
    """Initial score and decay factor of every region.

    The defaults are those of `SHIPPED_FILE`: fitted to the attention that SmolLM2's tokens get on
    recorded agent runs, on top of what foresight tells, see docs/regions.md. Instructions never
    fade nonetheless: little attention is no leave to forget the task.
    """

    system_instruction: RegionDecay = field(default=_shipped(Region.SYSTEM_INSTRUCTION))
    key_decision: RegionDecay = field(default=_shipped(Region.KEY_DECISION))
    tool_summary: RegionDecay = field(default=_shipped(Region.TOOL_SUMMARY))
    recent_dialogue: RegionDecay = field(default=_shipped(Region.RECENT_DIALOGUE))
    ordinary_context: RegionDecay = field(default=_shipped(Region.ORDINARY_CONTEXT))

    def __getitem__(self, region: Region) -> RegionDecay:
        """Return the row of a region."""
        row: RegionDecay = getattr(self, region.label)
        return row

    def __iter__(self) -> Iterator[RegionDecay]:
        """Yield the rows in the order of `Region`."""
        return (self[region] for region in Region)

    @property
    def initial_scores(self) -> tuple[float, ...]:
        """Initial scores in the order of `Region`."""
        return tuple(row.initial_score for row in self)

    @property
    def decays(self) -> tuple[float, ...]:
        """Decay factors per token in the order of `Region`."""
        return tuple(row.decay for row in self)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return the table as plain data, keyed by region name."""
        return {
            region.label: {
                "initial_score": self[region].initial_score,
                "decay": self[region].decay,
            }
            for region in Region
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Mapping[str, float]]) -> RegionTable:
        """Build a table from `to_dict`'s shape; a region left out keeps its default.

        Raises:
            TypeError: A row is no mapping, or a value no number.
            ValueError: A region name or field is unknown, or a value is out of range.
        """
        rows = {}
        for label, row in mapping(data).items():
            region = Region.from_label(label)
            if unknown := set(mapping(row)) - {"initial_score", "decay"}:
                raise ValueError(f"{label} has unknown field {sorted(unknown)[0]!r}")
            default = _DEFAULT_TABLE[region]
            rows[label] = RegionDecay(
                *(
                    plain_value(float, row.get(name, getattr(default, name)), f"{label}.{name}")
                    for name in ("initial_score", "decay")
                )
            )
        return cls(**rows)


_DEFAULT_TABLE = RegionTable()

UNTAGGED_TABLE = RegionTable(ordinary_context=RegionDecay(1.0, math.log(2) / 512))
"""For a cache whose tokens nobody tags: age alone tells them apart, and a shorter half-life serves
best there: 0.82 and 0.87 of the KL with the default, an eighth of the bytes, two recorded runs."""
