"""How much each rule covers, how often others contradict it, and how often it is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.data.labelling.agreement import Agreement
from memdecay.data.labelling.arrays import character_labels
from memdecay.data.labelling.confusion import count_pairs
from memdecay.data.labelling.weak import LabelledResult


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """One rule's account, in characters.

    Attributes:
        name: The rule.
        covered: On which it proposed something.
        conflicts: On which another rule proposed another region.
        overruled: On which another region won.
        judged: Covered ones that have a gold label.
        right: Judged ones where its proposal is the gold label.
    """

    name: str
    covered: int
    conflicts: int
    overruled: int
    judged: int
    right: int


class RuleReport:
    """Sums up labelled traces one by one; gold comes from the traces' own spans."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._sums = np.zeros((0, 5), np.int64)
        self._confusion = np.zeros((NUM_REGIONS, NUM_REGIONS), np.int64)
        self._region_chars = np.zeros(NUM_REGIONS, np.int64)
        self._traces = 0
        self._judged_traces = 0

    def add(self, result: LabelledResult) -> None:
        """Count one trace."""
        votes = result.votes
        if not self._names:
            self._names = votes.rule_names
            self._sums = np.zeros((len(self._names), 5), np.int64)
        self._traces += 1
        self._region_chars += np.bincount(
            votes.regions, weights=votes.lengths, minlength=NUM_REGIONS
        ).astype(np.int64)
        gold = character_labels(result.trace)
        if result.trace.spans:
            self._judged_traces += 1
            self._confusion += count_pairs(gold, votes.labels())
        self._add_rules(result, _gold_chars(result, np.concatenate([*gold, np.zeros(0, np.int8)])))

    def _add_rules(self, result: LabelledResult, gold: np.ndarray[Any, Any]) -> None:
        votes, chars = result.votes, result.votes.lengths
        all_speak = votes.votes.max(axis=2, initial=0.0) > 0
        all_proposed = votes.votes.argmax(axis=2)
        highest = np.where(all_speak, all_proposed, -1).max(axis=0, initial=-1)
        lowest = np.where(all_speak, all_proposed, NUM_REGIONS).min(axis=0, initial=NUM_REGIONS)
        for row, speaks, proposed in zip(self._sums, all_speak, all_proposed, strict=True):
            row += (
                int(chars[speaks].sum()),
                # Where not all agree, each has one that contradicts it.
                int(chars[speaks & (lowest != highest)].sum()),
                int(chars[speaks & (proposed != votes.regions)].sum()),
                int(gold[speaks].sum()),
                int(gold[speaks, proposed[speaks]].sum()),
            )

    @property
    def characters(self) -> int:
        """Characters labelled."""
        return int(self._region_chars.sum())

    @property
    def rules(self) -> Sequence[RuleFigures]:
        """Every rule's figures, in the order of the rules."""
        return [
            RuleFigures(name, *(int(value) for value in row))
            for name, row in zip(self._names, self._sums, strict=True)
        ]

    @property
    def against_gold(self) -> Agreement | None:
        """The combined labels against the traces' own spans; None if no trace has any."""
        if not self._judged_traces:
            return None
        return Agreement(self._judged_traces, self._confusion)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data.

        Coverage is a share of all characters, conflicts and losses are shares of the covered ones.
        """
        gold = self.against_gold
        total = max(self.characters, 1)
        return {
            "traces": self._traces,
            "characters": self.characters,
            "region_shares": (self._region_chars / total).tolist(),
            "rules": [
                {
                    "name": rule.name,
                    "coverage": rule.covered / total,
                    "conflicts": rule.conflicts / max(rule.covered, 1),
                    "overruled": rule.overruled / max(rule.covered, 1),
                    "accuracy": rule.right / rule.judged if rule.judged else None,
                }
                for rule in self.rules
            ],
            "against_gold": gold.to_dict() if gold else None,
        }


def _gold_chars(result: LabelledResult, gold: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    votes = result.votes
    counts = np.zeros((len(votes.lengths), NUM_REGIONS), np.int64)
    segment = np.repeat(np.arange(len(votes.lengths)), votes.lengths)
    known = gold >= 0
    np.add.at(counts, (segment[known], gold[known].astype(np.int64)), 1)
    return counts
