"""How well two people, or a person and the rules, agree on the same traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from memdecay.classifier.errors import TraceError
from memdecay.classifier.regions import NUM_REGIONS, REGION_LABELS
from memdecay.data.labelling.arrays import character_labels
from memdecay.data.labelling.confusion import (
    Confusion,
    accuracy,
    cohen_kappa,
    count_pairs,
    f1_per_region,
    krippendorff_alpha,
    macro_f1,
)
from memdecay.data.schema import SchemaError, parse_trace, trace_to_data
from memdecay.data.spill import TemporaryDatabase, text_key
from memdecay.data.trace import Trace

SECOND_FIELD = "spans_second_annotator"
_TWICE = "the id {!r} stands twice in the {} labelling; `memdecay validate` finds all such ids"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a second labelling with a first, each character counting once.

    Attributes:
        traces: Traces that both have labelled.
        confusion: ``(NUM_REGIONS, NUM_REGIONS)`` int64; rows are the first labelling.
    """

    traces: int
    confusion: Confusion

    @property
    def characters(self) -> int:
        """Characters that both have labelled."""
        return int(self.confusion.sum())

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain data; an undefined one is None."""
        figures = {
            "accuracy": accuracy(self.confusion),
            "cohen_kappa": cohen_kappa(self.confusion),
            "krippendorff_alpha": krippendorff_alpha(self.confusion),
            "macro_f1": macro_f1(self.confusion),
        }
        return {
            "traces": self.traces,
            "characters": self.characters,
            **{name: None if np.isnan(value) else value for name, value in figures.items()},
            "f1": f1_per_region(self.confusion),
            "regions": list(REGION_LABELS),
            "confusion": self.confusion.tolist(),
        }


def measure_agreement(pairs: Iterable[tuple[Trace, Trace]]) -> Agreement:
    """Compare two labellings of the same traces.

    Args:
        pairs: A trace with the first labelling and the same one with the second.

    Raises:
        TraceError: The two traces of a pair have not the same text, or there are no pairs.
    """
    confusion = np.zeros((NUM_REGIONS, NUM_REGIONS), np.int64)
    count = 0
    for first, second in pairs:
        if _texts(first) != _texts(second):
            raise TraceError(
                f"the trace {first.id!r} has another text in the second labelling; both must be "
                "made on the same file of traces"
            )
        confusion += count_pairs(character_labels(first), character_labels(second))
        count += 1
    if not count:
        raise TraceError("the two labellings share no trace; their ids must be the same")
    return Agreement(count, confusion)


def second_labelling(trace: Trace) -> Trace | None:
    """Return the trace with its second annotator's spans; None if it has none.

    Raises:
        TraceError: Those spans do not fit the trace.
    """
    spans = dict(trace.extra).get(SECOND_FIELD)
    if not spans:
        return None
    data = {"id": trace.id, "messages": [m.to_openai() for m in trace.messages], "spans": spans}
    try:
        return parse_trace(data, trace.id)
    except SchemaError as error:
        raise TraceError(f"{SECOND_FIELD} of the trace {trace.id!r}: {error}") from error


@dataclass(slots=True)
class Unpaired:
    """Traces that stand in only one of two files.

    Attributes:
        first: How many in the first.
        second: How many in the second.
    """

    first: int = 0
    second: int = 0


def pair_by_id(
    first: Iterable[Trace], second: Iterable[Trace], unpaired: Unpaired | None = None
) -> Iterator[tuple[Trace, Trace]]:
    """Yield the traces that stand in both, matched by id, in the order of the first.

    Args:
        first: Traces.
        second: The same ones; they are kept outside of memory.
        unpaired: Filled with what has no partner, complete at the end of the iteration.

    Raises:
        TraceError: An id stands twice in one of them.
        StorageError: There is no space left for temporary files.
    """
    unpaired = Unpaired() if unpaired is None else unpaired
    with TemporaryDatabase() as database:
        others, seen = database.lists("second"), database.sightings("first")
        for trace in second:
            if others.get(trace.id):
                raise TraceError(_TWICE.format(trace.id, "second"))
            others.add(trace.id, json.dumps(trace_to_data(trace)))
            unpaired.second += 1
        for trace in first:
            key = text_key(trace.id)
            if seen.first(key):
                raise TraceError(_TWICE.format(trace.id, "first"))
            seen.add((key,), 1)
            texts = others.get(trace.id)
            if not texts:
                unpaired.first += 1
                continue
            unpaired.second -= 1
            yield trace, parse_trace(json.loads(texts[0]), trace.id)


def _texts(trace: Trace) -> list[str]:
    return [message.content for message in trace.messages]
