"""What a language model's tokens looked like at some moment, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.errors import ModelError
from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.attach import attach
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.foresight.future import FutureAttention
from memdecay.runtime.foresight.norms import log_norms
from memdecay.runtime.forward_call import ForwardCall
from memdecay.runtime.layer import EvictingLayer, bookkeeping
from memdecay.runtime.policies.attention import pool, relative_attention

_LEAST_SHARE = 1e-7


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """Where a sequence is looked at.

    Attributes:
        chunk_tokens: Tokens of one forward pass.
        future_chunks: Passes after a moment whose attention counts.
        min_past: Tokens before the first moment.
        num_sinks: First tokens that are left out: models lean on them whatever they say.
        num_recent: Newest tokens of a moment that are left out: they are kept anyway.
        tokens_per_moment: Most tokens that are taken at a moment.
        seed: Which tokens.
    """

    chunk_tokens: int = 64
    future_chunks: int = 4
    min_past: int = 512
    num_sinks: int = 4
    num_recent: int = 128
    tokens_per_moment: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        for name in ("chunk_tokens", "future_chunks", "tokens_per_moment"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in ("num_sinks", "num_recent", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.min_past <= self.num_sinks + self.num_recent:
            raise ValueError(f"min_past must be above num_sinks + num_recent, got {self.min_past}")

    @property
    def future_tokens(self) -> int:
        """Tokens after a moment whose attention counts."""
        return self.future_chunks * self.chunk_tokens

    @property
    def least_tokens(self) -> int:
        """Tokens that a sequence must have to give a sample."""
        return self.min_past + self.future_tokens


@dataclass(frozen=True, slots=True)
class Samples:
    """Tokens at moments; attention and use are measured from their mean at the moment.

    Attributes:
        norms: `log_norms`, ``(n, num_norms)``, float32.
        attention: Logarithm of the attention so far, as the policy sees it, ``(n,)``, float32.
        use: Logarithm of the root of the mean squared attention that came, ``(n,)``, float32.
    """

    norms: NDArray[np.float32]
    attention: NDArray[np.float32]
    use: NDArray[np.float32]

    def __len__(self) -> int:
        """Return the number of tokens."""
        return self.use.size

    @classmethod
    def join(cls, parts: Sequence[Samples]) -> Samples:
        """Put samples together, at least one."""
        return cls(
            np.concatenate([part.norms for part in parts]),
            np.concatenate([part.attention for part in parts]),
            np.concatenate([part.use for part in parts]),
        )


def gather_samples(
    llm: LanguageModel,
    input_ids: NDArray[np.int64],
    config: SamplingConfig,
    on_tokens: Callable[[int], None] | None = None,
) -> Samples | None:
    """Read a sequence with nothing evicted and look at its tokens at some moments.

    Args:
        llm: The language model.
        input_ids: ``(n,)``.
        config: Where to look.
        on_tokens: Called with the number of tokens after each forward.

    Returns:
        The tokens; None where the sequence is shorter than ``config.least_tokens``.

    Raises:
        ModelError: The model has no full-attention layers, or layers of an unknown kind.
    """
    if input_ids.size < config.least_tokens:
        return None
    reading = _Reading(llm, input_ids, config)
    with reading.attached(), torch.inference_mode():
        for start in range(0, input_ids.size, config.chunk_tokens):
            num_new = reading.run(start)
            if on_tokens:
                on_tokens(num_new)
    return Samples.join(reading.samples)


class _Reading:
    """One pass over a sequence: moments wait until their future has been read."""

    def __init__(
        self, llm: LanguageModel, input_ids: NDArray[np.int64], config: SamplingConfig
    ) -> None:
        self.samples: list[Samples] = []
        self._llm = llm
        self._decoder = find_decoder(llm.model)
        self._input_ids = torch.from_numpy(input_ids)
        self._config = config
        self._random = np.random.default_rng(config.seed)
        # Room for everything: nothing is evicted, nothing fades.
        room = CacheConfig(input_ids.size + config.chunk_tokens, num_sinks=0, num_recent=0)
        self._cache = DecayCache(llm.model.config, room)
        layers = [i for i, each in enumerate(self._cache.layers) if _evicts(each)]
        if not layers:
            raise ModelError(f"{llm.name} has no full-attention layers to learn from")
        self._future = FutureAttention(input_ids.size, tuple(layers))
        self._squares: list[Tensor] = []
        self._moments: dict[int, tuple[NDArray[np.int64], NDArray[np.float32]]] = {}
        self._call = ForwardCall.of(self._decoder)

    @contextmanager
    def attached(self) -> Iterator[None]:
        with attach(self._decoder, self._cache), self._future.attached(self._decoder):
            yield

    def run(self, start: int) -> int:
        config = self._config
        if start >= config.min_past and (start - config.min_past) % config.future_tokens == 0:
            self._moments[start] = self._look(start)
        chunk = self._input_ids[None, start : start + config.chunk_tokens].to(self._llm.device)
        self._decoder(input_ids=chunk, **self._call.options(self._cache))
        self._squares = [*self._squares, self._future.take()][-config.future_chunks :]
        end = start + chunk.shape[1]
        begun = end - config.future_tokens
        if begun in self._moments:
            self.samples.append(self._sample(*self._moments.pop(begun)))
        return chunk.shape[1]

    def _look(self, moment: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Choose tokens and note the attention they got so far."""
        config = self._config
        places = np.arange(config.num_sinks, moment - config.num_recent)
        if places.size > config.tokens_per_moment:
            places = self._random.choice(places, config.tokens_per_moment, replace=False)
            places.sort()
        with bookkeeping():
            feedback = self._cache.config.feedback
            attention = pool(relative_attention(self._cache.slots), feedback.pool_width)[0].cpu()
            known = torch.log(feedback.attention_floor + attention)
        return places, known[torch.from_numpy(places)].numpy()

    def _sample(self, places: NDArray[np.int64], attention: NDArray[np.float32]) -> Samples:
        squares = sum(self._squares, torch.zeros(())) / self._config.future_tokens
        indices = torch.from_numpy(places)
        use = squares[indices].sqrt().clamp_min(_LEAST_SHARE).log().float().numpy()
        with bookkeeping():
            layers = [
                (layer.keys[:, :, indices], layer.values[:, :, indices])
                for layer in self._cache.layers
                if _evicts(layer)
            ]
            norms = log_norms(layers)[0].cpu().numpy()
        return Samples(norms, attention - attention.mean(), use - use.mean())


def _evicts(layer: object) -> bool:
    return isinstance(layer, EvictingLayer)
