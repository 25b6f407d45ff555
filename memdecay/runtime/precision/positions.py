"""Where the packed tokens stand in the text, and their rotation while a forward runs."""

from __future__ import annotations

import torch
from torch import Tensor

from memdecay.runtime.precision.rotary import RotaryFrequencies, Rotation


class FadedPositions:
    """Positions shared by all layers; their cosines and sines are computed once a forward.

    Args:
        frequencies: How far a key turns with every position.
    """

    def __init__(self, frequencies: RotaryFrequencies) -> None:
        self._frequencies = frequencies
        self._positions = torch.zeros((1, 0), dtype=torch.int64)
        self._rotation: Rotation | None = None

    def set(self, positions: Tensor) -> None:
        """Set the positions of the packed tokens in their order, ``(batch, n)``, int64."""
        self._positions = positions
        self._rotation = None

    def select_rows(self, rows: Tensor) -> None:
        """Make these rows the batch, ``rows`` of shape ``(new_batch,)``, int64."""
        # Before any token is packed there is one empty row, whatever the batch.
        if self._positions.shape[1]:
            self.set(self._positions.index_select(0, rows.to(self._positions.device)))

    def rotation(self) -> Rotation:
        """Return the packed tokens' rotation, kept until `release`."""
        if self._rotation is None:
            self._rotation = self._frequencies.rotation(self._positions)
        return self._rotation

    def rotation_of(self, positions: Tensor) -> Rotation:
        """Return the rotation of any positions ``(batch, n)``, int64."""
        return self._frequencies.rotation(positions)

    def release(self) -> None:
        """Drop the rotation: the forward is over, and it is no part of the cache."""
        self._rotation = None
