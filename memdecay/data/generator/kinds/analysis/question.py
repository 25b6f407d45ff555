"""A question about the totals of a data set."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.vocabulary.tables import DataSet
from memdecay.data.generator.wording import Wording


@dataclass(frozen=True, slots=True)
class Question:
    """A question about totals, the groups that matter for it, and the answer."""

    text: str
    groups: tuple[str, ...]
    answer: str


def draw_question(wording: Wording, data: DataSet) -> Question:
    """Return a question that the totals of the data set answer."""
    best = data.largest
    one, two = wording.some(sorted(data.totals), 2, 2)
    difference = abs(data.totals[one] - data.totals[two])
    ranking = sorted(data.totals, key=lambda name: -data.totals[name])
    return wording.pick(
        [
            Question(
                wording(
                    "{Rank|Order} all values of {group} by {meaning}{, largest first|}.",
                    group=data.group,
                    meaning=data.meaning,
                ),
                tuple(ranking),
                "\n"
                + "\n".join(
                    f"{i}. {name}: {data.totals[name]}" for i, name in enumerate(ranking, 1)
                ),
            ),
            Question(
                wording(
                    "Which {group} has the {largest|highest} {meaning} in total?",
                    group=data.group,
                    meaning=data.meaning,
                ),
                (best,),
                wording("{best}, with {total}", best=best, total=data.totals[best]),
            ),
            Question(
                wording(
                    "{By how much|How far} do {one} and {two} differ in {meaning}?",
                    one=one,
                    two=two,
                    meaning=data.meaning,
                ),
                (one, two),
                f"{difference} ({one}: {data.totals[one]}, {two}: {data.totals[two]})",
            ),
            Question(
                wording(
                    "{What is the total {meaning} of {one}?|Report the {meaning} of {one} over all days.}",
                    one=one,
                    meaning=data.meaning,
                ),
                (one,),
                str(data.totals[one]),
            ),
        ]
    )
