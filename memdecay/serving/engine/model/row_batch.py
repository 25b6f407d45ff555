"""Many sessions' caches as the one cache of a forward, without padding between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from memdecay.runtime.observer import AttentionFunction
from memdecay.runtime.packed_attention import attend_as_stored
from memdecay.serving.engine.model.memory import SessionMemory


class RowBatch(Cache):  # type: ignore[misc]
    """Gives each row of a forward to the cache of its session.

    The rows keep different numbers of tokens, so there is no tensor of all rows' keys: `update`
    returns the forward's own keys and values, and `attend` computes attention row by row over
    what each session's cache returned. Projections and MLPs run over all rows at once.

    What transformers asks for masks is answered for the first row. It is used only where there is
    but one row; several rows bring one token each, which sees everything.

    Args:
        memories: The sessions, in the order of the rows.
    """

    def __init__(self, memories: Sequence[SessionMemory]) -> None:
        super().__init__(layers=memories[0].cache.layers)
        self._memories = memories
        self._states: list[tuple[Tensor, Tensor]] = []

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append each row's keys and values, ``(batch, heads, q, head_dim)``, to its session.

        Returns:
            The keys and values as they came.
        """
        self._states = [
            memory.cache.update(
                key_states[row : row + 1], value_states[row : row + 1], layer_idx, *args, **kwargs
            )
            for row, memory in enumerate(self._memories)
        ]
        return key_states, value_states

    def attend(
        self,
        base: AttentionFunction,
        module: nn.Module,
        query: Tensor,
        attention_mask: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        """Compute the attention of each row over its session's keys, and let it be watched.

        Args:
            base: The attention function of the model.
            module: The attention layer.
            query: ``(batch, heads, q, head_dim)``.
            attention_mask: The mask of the only row; ignored if there are several.
            **kwargs: What else the function takes.

        Returns:
            The attention's output ``(batch, q, heads, head_dim)``, and no weights.
        """
        mask = attention_mask if len(self._memories) == 1 else None
        outputs = []
        for row, (memory, (key, value)) in enumerate(
            zip(self._memories, self._states, strict=True)
        ):
            own = query[row : row + 1]
            recorder = memory.recorder
            is_watched = recorder is not None and recorder.prepare(module, own, key)
            attended = attend_as_stored(memory.cache, base, module, own, key, value, mask, **kwargs)
            if recorder is not None and is_watched:
                recorder.see(module, own, key, mask, kwargs)
            outputs.append(attended[0])
        self._states = []
        return torch.cat(outputs), None
