"""Whole spans found: F1 over stretches of tokens instead of single tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import REGION_LABELS
from memdecay.training.calibration.tokens import TaggedTokens

_STRICT, _OVERLAP = "strict", "ent_type"


@dataclass(frozen=True, slots=True)
class SpanScore:
    """How many spans were found.

    Attributes:
        strict_f1: A span counts as found when its region and both ends are right.
        overlap_f1: It counts as found when a span of the same region overlaps it.
        num_spans: Spans in the labels.
        num_tagged: Spans in the tags.
    """

    strict_f1: float
    overlap_f1: float
    num_spans: int
    num_tagged: int


def runs(tokens: TaggedTokens, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where runs of tokens with one value begin; none goes beyond its message.

    Returns:
        Indices of the first tokens, int64, rising.
    """
    keys = np.stack([values, tokens.trace, tokens.message])
    is_first = np.ones(len(tokens), np.bool_)
    is_first[1:] = np.any(keys[:, 1:] != keys[:, :-1], axis=0)
    return np.flatnonzero(is_first)


def span_scores(tokens: TaggedTokens) -> Mapping[str, SpanScore]:
    """Compare labelled spans with tagged ones, message by message.

    A span is a longest run of labelled tokens of one region within a message.

    Returns:
        Scores by region name, and under ``all`` those of all regions together.

    Raises:
        ConfigError: nervaluate is not installed.
    """
    evaluator = span_evaluator()
    document = runs(tokens, np.zeros(len(tokens), np.int64))
    labelled = _documents(tokens, tokens.labels, document)
    tagged = _documents(tokens, tokens.predicted, document)
    results = evaluator(labelled, tagged, tags=list(REGION_LABELS), loader="dict").evaluate()
    by_region = results["entities"]
    found = {label: _score(by_region[label]) for label in REGION_LABELS if label in by_region}
    return {"all": _score(results["overall"])} | found


def span_evaluator() -> Any:
    """Return nervaluate's evaluator.

    Raises:
        ConfigError: nervaluate is not installed.
    """
    try:
        from nervaluate import Evaluator
    except ImportError as error:
        raise ConfigError(
            "scores of spans need nervaluate, which is not installed; run "
            "`pip install 'memdecay[report]'`"
        ) from error
    return Evaluator


def _documents(
    tokens: TaggedTokens, regions: NDArray[np.int64], document: NDArray[np.int64]
) -> list[list[dict[str, Any]]]:
    firsts = runs(tokens, regions)
    ends = np.append(firsts[1:], len(tokens))
    place = np.searchsorted(document, firsts, side="right") - 1
    documents: list[list[dict[str, Any]]] = [[] for _ in document]
    for where, first, end in zip(place.tolist(), firsts.tolist(), ends.tolist(), strict=True):
        # nervaluate's ends belong to the span.
        label = REGION_LABELS[int(regions[first])]
        documents[where].append({"label": label, "start": first, "end": end - 1})
    return documents


def _score(result: Mapping[str, Any]) -> SpanScore:
    strict = result[_STRICT]
    return SpanScore(
        strict_f1=float(strict.f1),
        overlap_f1=float(result[_OVERLAP].f1),
        num_spans=int(strict.possible),
        num_tagged=int(strict.actual),
    )
