"""Rank by what is foreseen of each token, without regions: ``learned``."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from memdecay.classifier.errors import ConfigError
from memdecay.runtime.config import CacheConfig, FeedbackConfig
from memdecay.runtime.metadata import Slots
from memdecay.runtime.policies.attention import log_expected_use, pool, relative_attention
from memdecay.runtime.policies.base import AS_CONFIGURED, Observation


@dataclass(frozen=True, slots=True)
class LearnedPolicy:
    """Keep the tokens from which a foresight head expects the most attention.

    score = a * log(floor + attention / mean attention of the row) + foresight

    Attention is pooled over neighbouring slots. Both terms are those of ``memdecay``; its regions,
    decay, caps and fading are left out. The head is distilled from measured attention, see
    `memdecay.runtime.foresight.head.ForesightHead`.

    Attributes:
        feedback: Floor and pooling width.
        attention_weight: Exponent a, which the head brings.
    """

    feedback: FeedbackConfig
    attention_weight: float
    evicts: bool = True
    protects_sinks: bool = True
    caps_regions: bool = False
    uses_attention: bool = True
    uses_keys: bool = False
    uses_foresight: bool = True
    fades: bool = False
    scores_logarithms: bool = True
    observation: Observation = AS_CONFIGURED

    def score(self, slots: Slots, keys: tuple[Tensor, ...]) -> Tensor:  # noqa: ARG002
        """Return the score above; a token that nobody looked at yet has a foresight of 0."""
        attention = pool(relative_attention(slots), self.feedback.pool_width)
        floor = self.feedback.attention_floor
        return log_expected_use(slots, attention, floor, self.attention_weight)

    @classmethod
    def of(cls, config: CacheConfig) -> LearnedPolicy:
        """Return the policy for the head of a cache's configuration.

        Raises:
            ConfigError: There is none.
        """
        head = config.foresight_head
        if head is None:
            raise ConfigError(
                "the policy 'learned' needs a foresight head, but none was given and none comes "
                "with this model; make one with `memdecay foresee` and give it with --foresight "
                "FILE, from Python with CacheConfig(foresight=load_head(FILE))"
            )
        return cls(config.feedback, head.attention_weight)
