"""Keys and values of neighbouring tokens, cut out of saved memories and put together again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_HAS_TOKENS = re.compile(r"cache\.layers\.\d+\.(?:keys|values)")


def has_tokens(name: str) -> bool:
    """Tell whether a part of a saved memory is ``(batch, heads, tokens, head_dim)``."""
    return _HAS_TOKENS.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class TokenStates:
    """The keys and values of some tokens in all layers.

    Attributes:
        names: Which tensors of a saved memory each stack has, in its order.
        stacks: Those tensors of one shape and dtype in one,
            ``(num_tensors, batch, heads, tokens, head_dim)``.
    """

    names: tuple[tuple[str, ...], ...]
    stacks: tuple[Tensor, ...]

    @classmethod
    def split(
        cls, state: Mapping[str, Tensor], num_tokens: int
    ) -> tuple[TokenStates, dict[str, Tensor]]:
        """Take the keys and values of all tokens out of a saved memory.

        Layers that don't hold all tokens, or not all of them at full precision, stay in the rest.

        Args:
            state: See `memory_state`.
            num_tokens: Tokens that the memory has seen.

        Returns:
            The keys and values, and what else the memory has.
        """
        groups: dict[tuple[torch.Size, torch.dtype], list[str]] = {}
        for name, value in state.items():
            if has_tokens(name) and value.shape[2] == num_tokens:
                groups.setdefault((value.shape, value.dtype), []).append(name)
        names = tuple(map(tuple, groups.values()))
        stacks = tuple(torch.stack([state[name] for name in group]) for group in names)
        taken = {name for group in names for name in group}
        return cls(names, stacks), {k: value for k, value in state.items() if k not in taken}

    @classmethod
    def join(cls, parts: Sequence[TokenStates]) -> dict[str, Tensor]:
        """Return the tensors by name, of tokens that follow one another; always new ones."""
        joined: dict[str, Tensor] = {}
        for group, *stacks in zip(parts[0].names, *(part.stacks for part in parts), strict=True):
            joined |= dict(zip(group, torch.cat(stacks, dim=3).unbind(), strict=True))
        return joined

    @property
    def nbytes(self) -> int:
        """Bytes of all stacks."""
        return sum(stack.nbytes for stack in self.stacks)

    def part(self, start: int, stop: int) -> TokenStates:
        """Return the tokens from ``start`` to before ``stop``, as a view."""
        return TokenStates(self.names, tuple(stack[:, :, :, start:stop] for stack in self.stacks))

    def copy(self) -> TokenStates:
        """Return the same in memory of its own."""
        copies = tuple(stack.clone(memory_format=torch.contiguous_format) for stack in self.stacks)
        return TokenStates(self.names, copies)

    def equals(self, other: TokenStates) -> bool:
        """Tell whether this is the same, to the last bit."""
        return self.names == other.names and all(
            torch.equal(own, others) for own, others in zip(self.stacks, other.stacks, strict=True)
        )
