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
