"""What a kernel gets, packed tokens with all that unpacks them, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.precision.basis import KeyBasis
from memdecay.runtime.precision.pool import Pool
from memdecay.runtime.precision.rotary import Rotation
from memdecay.runtime.precision.tiers import Tier


@dataclass(frozen=True, slots=True)
class PackedPart:
    """One layer's tokens at one step of precision.

    Attributes:
        pool: Their keys and values, packed; at least one token.
        tier: How they are packed.
        basis: The basis that the keys are packed in.
        rotation: Their rotary positions, ``(batch, 1, n, rotary_dim / 2)``.
    """

    pool: Pool
    tier: Tier
    basis: KeyBasis
    rotation: Rotation

    @property
    def num_tokens(self) -> int:
        """Tokens of each row."""
        return self.pool.num_tokens

    def decode(self) -> tuple[Tensor, Tensor]:
        """Return keys and values ``(batch, heads, n, head_dim)``, float32."""
        return self.pool.decode(self.tier, self.basis, self.rotation)


@dataclass(frozen=True, slots=True)
class ExactPart:
    """One layer's tokens at full precision.

    Attributes:
        keys: ``(batch, heads, n, key_dim)``, float; at least one token.
        values: ``(batch, heads, n, value_dim)``, float.
    """

    keys: Tensor
    values: Tensor

    @property
    def num_tokens(self) -> int:
        """Tokens of each row."""
        return self.keys.shape[2]


@dataclass(frozen=True, slots=True)
class Attended:
    """Attention over some of the tokens, to be joined with attention over the others.

    Attributes:
        output: ``(batch, num_attention_heads, q, value_dim)``, float32; zero where a query sees
            none of the tokens.
        lse: Logarithm of the sum of the exponentiated logits, ``(batch, num_attention_heads, q)``,
            float32; minus infinity where a query sees none of the tokens.
    """

    output: Tensor
    lse: Tensor

    def join(self, other: Attended) -> Attended:
        """Return attention over the tokens of both."""
        lse = torch.logaddexp(self.lse, other.lse)
        # Where neither sees a token, any finite number does: both outputs are zero.
        base = lse.masked_fill(lse.isneginf(), 0.0)
        own = torch.exp(self.lse - base).unsqueeze(-1)
        others = torch.exp(other.lse - base).unsqueeze(-1)
        return Attended(self.output * own + other.output * others, lse)
