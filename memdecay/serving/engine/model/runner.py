"""Forwards of a language model for the sessions of a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memdecay.classifier.decoder import decoder_layers, find_decoder
from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.forward_call import ForwardCall
from memdecay.runtime.observer import AttentionFunction, wrap_attention
from memdecay.runtime.packed_attention import is_replaceable
from memdecay.runtime.transcript import TokenTable
from memdecay.serving.engine.model.few_rows import few_rows_fast
from memdecay.serving.engine.model.memory import SessionMemory
from memdecay.serving.engine.model.row_batch import RowBatch


@dataclass(frozen=True, slots=True)
class Row:
    """The next tokens of one session.

    Attributes:
        memory: The session's memory.
        tokens: The tokens that follow those which it has seen.
        is_pinned: Which of them may never be evicted, ``(n,)``; None for none.
    """

    memory: SessionMemory
    tokens: TokenTable
    is_pinned: NDArray[np.bool_] | None = None


class ModelRunner:
    """Runs one session's chunk, or the newest token of many sessions, in one forward.

    Args:
        llm: The language model.
        tagger_layer: Layer whose output the sessions' taggers read; None if they have none.
    """

    def __init__(self, llm: LanguageModel, tagger_layer: int | None) -> None:
        self._llm = llm
        self._tagger_layer = tagger_layer
        self._call = ForwardCall.of(llm.model)
        self._attends_to_packed = is_replaceable(find_decoder(llm.model))
        self._batch: RowBatch | None = None
        self._hidden_states: Tensor | None = None

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Keep the hooks on the model, which every `run` needs, until the block ends."""
        decoder = find_decoder(self._llm.model)
        with ExitStack() as stack:
            stack.enter_context(wrap_attention(decoder, self._attend))
            stack.enter_context(few_rows_fast(self._llm.model))
            if self._tagger_layer is not None:
                layer = decoder_layers(decoder)[self._tagger_layer]
                stack.callback(layer.register_forward_hook(self._capture).remove)
            yield

    def run(self, rows: Sequence[Row]) -> Tensor:
        """Run every row's tokens, tag them and evict.

        Args:
            rows: One row with any number of tokens, or several with one token each.

        Returns:
            The logits behind each row's last token, ``(len(rows), vocab_size)``, in the model's
            dtype.

        Raises:
            ValueError: There are no rows, or several of which one has more than one token.
        """
        if not rows or (len(rows) > 1 and any(len(row.tokens) != 1 for row in rows)):
            raise ValueError(
                "run takes one row, or several of one token each, got rows of "
                f"{[len(row.tokens) for row in rows]} tokens"
            )
        for row in rows:
            row.memory.cache.make_room(len(row.tokens))
        starts = [row.memory.num_tokens for row in rows]
        logits = self._forward(rows, starts)
        states, self._hidden_states = self._hidden_states, None
        for index, (row, start) in enumerate(zip(rows, starts, strict=True)):
            own = None if states is None else states[index : index + 1]
            row.memory.take_in(start, row.tokens, own, row.is_pinned)
        return logits

    def _forward(self, rows: Sequence[Row], starts: Sequence[int]) -> Tensor:
        device = self._llm.device
        input_ids = torch.from_numpy(np.stack([row.tokens.input_ids for row in rows]))
        offsets = torch.arange(input_ids.shape[1])
        position_ids = torch.tensor(starts).unsqueeze(1) + offsets
        self._batch = RowBatch([row.memory for row in rows])
        options = self._call.options(self._batch, logits_to_keep=1)
        try:
            with torch.inference_mode(), self._handing_out_packed(rows):
                output = self._llm.model(
                    input_ids=input_ids.to(device), position_ids=position_ids.to(device), **options
                )
        finally:
            self._batch = None
        logits: Tensor = output.logits[:, -1]
        return logits

    @contextmanager
    def _handing_out_packed(self, rows: Sequence[Row]) -> Iterator[None]:
        """Let tokens that have lost precision be attended to as they are stored."""
        with ExitStack() as stack:
            if self._attends_to_packed:
                for row in rows:
                    stack.enter_context(row.memory.cache.handing_out_packed())
            yield

    def _attend(
        self,
        base: AttentionFunction,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        **kwargs: Any,
    ) -> Any:
        if self._batch is None:
            return base(module, query, key, value, attention_mask, **kwargs)
        return self._batch.attend(base, module, query, attention_mask, **kwargs)

    def _capture(self, _: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        if self._batch is not None:
            states = output[0] if isinstance(output, tuple) else output
            self._hidden_states = states.detach()
