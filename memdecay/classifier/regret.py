"""What wrong regions cost: the figures of one replayed conversation."""

from __future__ import annotations

from dataclasses import dataclass

from memdecay.classifier.regions import Region


@dataclass(frozen=True, slots=True)
class ConfusionCost:
    """One kind of mistake, made alone.

    Attributes:
        gold: The region that is right.
        predicted: The region that the tagger gave.
        num_tokens: Tokens that it confused so.
        kl: KL divergence from the full cache in nats a token, all other regions being right.
    """

    gold: Region
    predicted: Region
    num_tokens: int
    kl: float


@dataclass(frozen=True, slots=True)
class EvictionRegret:
    """One conversation's figures; KL divergences are from the full cache, in nats a token.

    Attributes:
        num_positions: Predictions compared.
        num_tokens: Tokens of the conversation that have a gold region.
        num_wrong: Of them those whose region the tagger got wrong.
        kl_gold: With the gold regions.
        kl_tagger: With the tagger's most likely regions.
        kl_untagged: With no regions at all.
        confusions: The most frequent confusions, each made alone.
    """

    num_positions: int
    num_tokens: int
    num_wrong: int
    kl_gold: float
    kl_tagger: float
    kl_untagged: float
    confusions: tuple[ConfusionCost, ...]
