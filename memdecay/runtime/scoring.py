"""How the score of a kept token falls with its age: score = importance * exp(-decay * age)."""

from __future__ import annotations

import torch
from torch import Tensor


def decayed_score(importance: Tensor, decay: Tensor, age_tokens: Tensor) -> Tensor:
    """Return importance * exp(-decay * age), element by element.

    Args:
        importance: Score of the token when it was fresh, shape ``(batch, kept)``, float.
        decay: Decay factor per token of age, zero or above, shape ``(batch, kept)``, float.
        age_tokens: Tokens seen since the token, shape ``(batch, kept)``, integer or float. Evicted
            tokens count: an age never shrinks because others were forgotten.

    Returns:
        Scores, shape ``(batch, kept)``, in the dtype of ``importance``. Very old tokens reach
        zero; `log_decayed_score` ranks those too.

    >>> decayed_score(torch.tensor([8.0]), torch.tensor([0.6931472]), torch.tensor([3]))
    tensor([1.])
    """
    return importance * torch.exp(-decay * age_tokens)


def log_decayed_score(importance: Tensor, decay: Tensor, age_tokens: Tensor) -> Tensor:
    """Return log(importance) - decay * age: the order of `decayed_score` without its underflow.

    Args:
        importance: As in `decayed_score`; zero gives minus infinity.
        decay: As in `decayed_score`.
        age_tokens: As in `decayed_score`.

    Returns:
        Log scores, shape ``(batch, kept)``.
    """
    return torch.log(importance) - decay * age_tokens


def visited_decay(decay: Tensor, relative_attention: Tensor, strength: float) -> Tensor:
    """Slow the decay of tokens that are visited often: decay / (1 + strength * attention).

    Args:
        decay: Decay factor per token of age, shape ``(batch, kept)``, float.
        relative_attention: Attention over the mean of the row, 0 or above, the same shape.
        strength: 0 changes nothing; at 1 a token with the mean attention decays half as fast.

    Returns:
        Decay factors of the same shape, never above what came.
    """
    return decay / (1 + strength * relative_attention)


def adapted_decay(
    decay: Tensor, tokens_per_forward: Tensor, reference: float, strength: float
) -> Tensor:
    """Slow the decay while tokens pour in: decay * min(1, reference / rate) ^ strength.

    Where a tool dumps thousands of tokens, the same few turns of conversation are thousands of
    tokens of age; what was decided before the dump is no older for it.

    Args:
        decay: Decay factor per token of age, shape ``(batch, kept)``, float.
        tokens_per_forward: The recent rate, see `Slots`, without dimensions.
        reference: The rate up to which nothing changes, above 0.
        strength: 0 changes nothing; at 1 age counts forwards of the reference's size.

    Returns:
        Decay factors of the same shape, never above what came.
    """
    return decay * (reference / tokens_per_forward).clamp_max(1.0) ** strength
