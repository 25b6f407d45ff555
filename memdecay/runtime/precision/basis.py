"""The basis in which one layer's keys are quantized: their mean and principal directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_SHRINKAGE_TOKENS = 32
"""How many tokens' worth of equal variance in all directions is added to the measured one."""


@dataclass(frozen=True, slots=True)
class KeyBasis:
    """Means and orthonormal directions of every head, those that carry most first.

    Attributes:
        mean: ``(heads, 1, head_dim)``, float16.
        directions: ``(heads, head_dim, head_dim)``, float16; a column is a direction.
    """

    mean: Tensor
    directions: Tensor

    @classmethod
    def fit(cls, keys: Tensor) -> KeyBasis:
        """Find the basis of some keys.

        A few tokens' worth of equal variance is added, so that directions stay sensible for few
        tokens.

        Args:
            keys: ``(heads, n, head_dim)``, float, without their rotary position; n at least 1.

        Raises:
            ValueError: There are no keys.
        """
        num_tokens = keys.shape[1]
        if num_tokens == 0:
            raise ValueError("keys must hold at least one token, got none")
        keys = keys.to(torch.float32)
        mean = keys.mean(dim=1, keepdim=True)
        centred = keys - mean
        scatter = centred.transpose(1, 2) @ centred
        level = scatter.diagonal(dim1=1, dim2=2).mean(dim=1) / num_tokens + 1e-12
        equal = torch.eye(keys.shape[2], device=keys.device) * level[:, None, None]
        _, directions = torch.linalg.eigh(scatter + _SHRINKAGE_TOKENS * equal)
        # More than half precision is worth no bytes; `full` is made where it is needed.
        return cls(mean.to(torch.float16), directions.flip(-1).to(torch.float16).contiguous())

    @classmethod
    def join(cls, bases: Sequence[KeyBasis]) -> KeyBasis:
        """Put the heads of several layers side by side."""
        if len(bases) == 1:
            return bases[0]
        return cls(
            torch.cat([basis.mean for basis in bases]),
            torch.cat([basis.directions for basis in bases]),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return self.mean.nbytes + self.directions.nbytes

    def full(self) -> tuple[Tensor, Tensor]:
        """Return mean and directions in float32, as copies."""
        return self.mean.to(torch.float32), self.directions.to(torch.float32)

    @staticmethod
    def bytes_for(num_heads: int, head_dim: int) -> int:
        """Return the bytes of a basis for so many heads of this width."""
        return 2 * num_heads * head_dim * (head_dim + 1)

    def into(self, keys: Tensor) -> Tensor:
        """Return the coordinates of keys ``(..., heads, n, head_dim)``, float32."""
        mean, directions = self.full()
        return (keys.to(torch.float32) - mean) @ directions

    def out_of(self, numbers: Tensor, synthesis: Tensor) -> Tensor:
        """Return the keys of which some stored numbers are left.

        Args:
            numbers: ``(..., heads, n, num_stored)``, float32.
            synthesis: Makes them coordinates in this basis, ``(num_stored, head_dim)``.

        Returns:
            ``(..., heads, n, head_dim)``, float32.
        """
        mean, directions = self.full()
        return (numbers @ (synthesis @ directions.transpose(1, 2))).add_(mean)
