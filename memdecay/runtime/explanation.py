"""What a session has forgotten or blurred, as stretches of its text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from memdecay.classifier.regions import Region
from memdecay.runtime.fates import Fate
from memdecay.runtime.late_tagging import LateTag
from memdecay.runtime.precision.layout import FULL_BITS

_LEAST_ATTENTION = 1e-6


@dataclass(frozen=True, slots=True)
class ExplainedSpan:
    """A stretch of text that faded, was forgotten, or was found to be a key decision.

    Attributes:
        text: The text, with control tokens.
        start: Position of its first token.
        stop: Position behind its last.
        region: Its region when that happened.
        bits: Bits that it has now; 0 where it was forgotten.
        at: Tokens seen when it happened.
        score: Mean score then: the policy's ranking, on a logarithmic scale. Of a key decision
            that was found late, the logarithm of its attention over the mean.
        promoted_from: Region that it had before later tokens' attention made it a key decision;
            None where nothing did.
    """

    text: str
    start: int
    stop: int
    region: Region
    bits: int
    at: int
    score: float
    promoted_from: Region | None = None

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing of it is left."""
        return self.bits == 0


def explain(
    fates: Sequence[Fate],
    late_tags: Sequence[LateTag],
    token_ids: Sequence[int],
    tokenizer: PreTrainedTokenizerBase,
) -> tuple[ExplainedSpan, ...]:
    """Put the text to what became of its tokens.

    Args:
        fates: See `DecayCache.fates`.
        late_tags: See `DecayCache.late_tags`.
        token_ids: The session's tokens.
        tokenizer: Makes text of them.
    """

    def text(start: int, stop: int) -> str:
        return str(tokenizer.decode(token_ids[start:stop]))

    changed = [
        ExplainedSpan(
            text=text(fate.start, fate.stop),
            start=fate.start,
            stop=fate.stop,
            region=fate.region,
            bits=fate.bits,
            at=fate.at,
            score=fate.score,
        )
        for fate in fates
    ]
    found = [
        ExplainedSpan(
            text=text(tag.start, tag.stop),
            start=tag.start,
            stop=tag.stop,
            region=Region.KEY_DECISION,
            bits=FULL_BITS,
            at=tag.at,
            score=math.log(max(tag.attention, _LEAST_ATTENTION)),
            promoted_from=tag.region,
        )
        for tag in late_tags
    ]
    return tuple(sorted([*changed, *found], key=lambda span: span.start))
