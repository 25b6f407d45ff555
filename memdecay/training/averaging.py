"""The mean of a run's weights over its steps, in which late ones count most."""

from __future__ import annotations

from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor

_POWER = 2.0


def weight_averaging() -> WeightAveraging:
    """Return what averages a run's weights, for validation, for checkpoints and at the end.

    Step t counts by its square: polynomial-decay averaging of Shamir and Zhang (2013). Half of the
    average comes from the last fifth of the steps, however many there are, so that it suits a run
    of thirty steps as well as one of thousands; a moving average of fixed length does not.
    """
    # The buffers are constants, which a mean would only round.
    return WeightAveraging(use_buffers=False, avg_fn=blended)


def blended(average: Tensor, new: Tensor, num_averaged: Tensor | int) -> Tensor:
    """Return the average with one step's weights more in it; this many are in it already."""
    share = (_POWER + 1) / (float(num_averaged) + _POWER + 1)
    # A run in true half precision has its weights in that, and their average in single.
    return average.lerp(new.to(average.dtype), share)
