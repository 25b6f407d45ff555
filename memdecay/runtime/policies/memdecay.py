"""Rank by attention bent by the region's decayed score: ``memdecay``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.config import CacheConfig, FeedbackConfig
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.attention import log_expected_use, pool, relative_attention
from memdecay.runtime.policies.base import AS_CONFIGURED, Observation
from memdecay.runtime.scoring import adapted_decay, log_decayed_score, visited_decay


@dataclass(frozen=True, slots=True)
class MemdecayPolicy:
    """Rank by the attention a token gets, bent by its region's decayed score.

    score = (floor + attention / mean attention of the row)^a * (importance * exp(-decay * age))^w
        * exp(weight of the region + foresight)

    The attention is the running average in `Slots.attention`, averaged over neighbouring slots.
    A token that is visited keeps its score while its region's part fades, so it fades more slowly
    than one that nobody reads. `FeedbackConfig.visit_strength` and ``rate_strength`` slow the
    decay itself, for visited tokens and while tokens pour in. A token not observed yet counts as
    average. Without tags every token is ordinary context, and age takes the region's place. The
    weight is the mean over the regions' probabilities, so it bends the ranking as far as the
    tagger is sure, and attention that is clear enough overrules it. The chat template's own tokens
    have a weight of their own.

    Foresight is what a token's keys and values say of its use, see
    `memdecay.runtime.foresight.head.ForesightHead`, which also brings the exponent a. Without one,
    foresight is 0 and a is 1.

    Attributes:
        feedback: Floor, exponent w and pooling width.
        template_weight: Weight of the chat template's tokens.
        attention_weight: Exponent a.
    """

    feedback: FeedbackConfig
    template_weight: float = 0.0
    attention_weight: float = 1.0
    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = True
    uses_attention: bool = True
    uses_keys: bool = False
    uses_foresight: bool = True
    fades: bool = True
    scores_logarithms: bool = True
    observation: Observation = AS_CONFIGURED

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return the logarithm of the score above."""
        feedback = self.feedback
        attention = pool(relative_attention(slots), feedback.pool_width)
        decay = adapted_decay(
            visited_decay(slots.decay, attention, feedback.visit_strength),
            slots.tokens_per_forward,
            feedback.rate_reference_tokens,
            feedback.rate_strength,
        )
        prior = log_decayed_score(slots.importance, decay, slots.ages)
        floor = feedback.attention_floor
        use = log_expected_use(slots, attention, floor, self.attention_weight)
        weight = torch.where(slots.is_template, self.template_weight, slots.region_weight)
        return use + feedback.prior_weight * prior + weight

    @classmethod
    def of(cls, config: CacheConfig) -> MemdecayPolicy:
        """Return the policy that a cache's configuration describes."""
        head = config.foresight_head
        attention_weight = 1.0 if head is None else head.attention_weight
        return cls(config.feedback, config.regions.template_weight, attention_weight)
