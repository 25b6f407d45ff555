"""What a session has forgotten or blurred, as stretches of its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from memdecay.classifier.regions import Region
from memdecay.runtime.fates import Fate


@dataclass(frozen=True, slots=True)
class ExplainedSpan:
    """A stretch of text that faded or was forgotten.

    Attributes:
        text: The text, with control tokens.
        start: Position of its first token.
        stop: Position behind its last.
        region: Its region when that happened.
        bits: Bits that it has now; 0 where it was forgotten.
        at: Tokens seen when it happened.
        score: Mean score then: the policy's ranking, on a logarithmic scale.
    """

    text: str
    start: int
    stop: int
    region: Region
    bits: int
    at: int
    score: float

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing of it is left."""
        return self.bits == 0


def explain(
    fates: Sequence[Fate], token_ids: Sequence[int], tokenizer: PreTrainedTokenizerBase
) -> tuple[ExplainedSpan, ...]:
    """Put the text to what became of its tokens.

    Args:
        fates: See `DecayCache.fates`.
        token_ids: The session's tokens.
        tokenizer: Makes text of them.
    """
    return tuple(
        ExplainedSpan(
            text=str(tokenizer.decode(token_ids[fate.start : fate.stop])),
            start=fate.start,
            stop=fate.stop,
            region=fate.region,
            bits=fate.bits,
            at=fate.at,
            score=fate.score,
        )
        for fate in fates
    )
