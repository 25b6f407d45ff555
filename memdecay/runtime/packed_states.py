"""Keys and values of which the packed ones stay packed until something needs them unpacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from memdecay.runtime.precision.kernels.parts import PackedPart


@dataclass(frozen=True, slots=True)
class MixedStates:
    """One layer's tokens as they are stored, for the forward that is running.

    Attributes:
        parts: The packed tokens, coarsest first; at least one part.
        keys: Keys at full precision, which stand behind them, ``(batch, heads, n, head_dim)``.
        values: Their values.
    """

    parts: tuple[PackedPart, ...]
    keys: Tensor
    values: Tensor

    @property
    def num_packed(self) -> int:
        """Packed tokens of each row."""
        return sum(part.num_tokens for part in self.parts)


class Unpacking:
    """Unpacks a layer's keys or values when asked for them for the first time.

    Args:
        unpack_keys: Gives the keys of all tokens.
        unpack_values: Gives their values.
    """

    def __init__(
        self, unpack_keys: Callable[[], Tensor], unpack_values: Callable[[], Tensor]
    ) -> None:
        self._unpack_keys = unpack_keys
        self._unpack_values = unpack_values

    @cached_property
    def keys(self) -> Tensor:
        """Keys of all tokens."""
        return self._unpack_keys()

    @cached_property
    def values(self) -> Tensor:
        """Values of all tokens."""
        return self._unpack_values()


class PackedStates(Tensor):
    """Stands for a layer's keys or values of all tokens, ``(batch, heads, kept, head_dim)``.

    An attention function that knows of it takes the tokens from `mixed` as they are stored. For
    whatever else is done with it, it is the tensor of the unpacked tokens. It holds for the
    forward that it was made in.

    Attributes:
        mixed: The tokens as they are stored.
        is_watched: Whether somebody will ask for the logits of the attention to these keys.
        logits: The scaled logits without any mask, ``(batch, num_attention_heads, q, kept)``,
            float32, once attention was computed, where it was watched and could give them.
    """

    mixed: MixedStates
    is_watched: bool
    logits: Tensor | None
    _unpacking: Unpacking
    _place: int

    @classmethod
    def pair(
        cls, mixed: MixedStates, unpacking: Unpacking, dtype: torch.dtype
    ) -> tuple[PackedStates, PackedStates]:
        """Return what stands for keys, and what stands for values."""
        return cls(mixed, unpacking, 0, dtype), cls(mixed, unpacking, 1, dtype)

    def __new__(
        cls, mixed: MixedStates, unpacking: Unpacking, place: int, dtype: torch.dtype
    ) -> PackedStates:
        """Make a tensor of this shape without memory of its own."""
        exact = (mixed.keys, mixed.values)[place]
        batch_size, num_heads, num_exact, width = exact.shape
        shape = (batch_size, num_heads, mixed.num_packed + num_exact, width)
        states: PackedStates = Tensor._make_wrapper_subclass(
            cls, shape, dtype=dtype, device=exact.device
        )
        states.mixed = mixed
        states.is_watched, states.logits = False, None
        states._unpacking = unpacking
        states._place = place
        return states

    def unpacked(self) -> Tensor:
        """Return the keys or values of all tokens, unpacked."""
        return self._unpacking.values if self._place else self._unpacking.keys

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch calls it on the class.
        cls,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation of torch on the unpacked tokens."""
        plain_args, plain_kwargs = tree_map_only(
            PackedStates, PackedStates.unpacked, (args, dict(kwargs or {}))
        )
        return func(*plain_args, **plain_kwargs)
