"""Bring a recorded conversation to some moment with a full cache and take snapshots there."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from memdecay.classifier.decoder import find_decoder
from memdecay.classifier.errors import ModelError
from memdecay.classifier.features import role_code
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import NUM_REGIONS, Region, RegionTable
from memdecay.classifier.tokenization import special_ids
from memdecay.runtime.bench.quality.case import QualityCase
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.engine import Engine
from memdecay.runtime.fading_layer import FadingLayer
from memdecay.runtime.layer import bookkeeping
from memdecay.runtime.precision.rotary import RotaryFrequencies
from memdecay.runtime.tagging import Reading, SessionTagger, begin_tagging
from memdecay.runtime.tuning.snapshot import Snapshot

OnTokens = Callable[[int], None]
_ASSISTANT = role_code("assistant")
_CHUNK_TOKENS = 64
_LEAST_SCORED = 16


@dataclass(frozen=True, slots=True)
class Moment:
    """Where in a trace a snapshot is taken.

    Attributes:
        start: The first of the next tokens: all before it are the past.
        stop: The end of the next tokens.
    """

    start: int
    stop: int


def choose_moments(
    case: QualityCase, num_moments: int, next_tokens: int, min_past: int
) -> list[Moment]:
    """Choose the moments after which the assistant writes most, one in each part of the trace.

    Args:
        case: The trace.
        num_moments: Parts of the trace, of equal length, behind the least past.
        next_tokens: Tokens that follow a moment.
        min_past: Tokens that the past has at the least.

    Returns:
        At most ``num_moments``, rising; parts where the assistant writes next to nothing give none.
    """
    is_written = (case.tokens.role == _ASSISTANT) & ~case.tokens.is_special
    written = np.concatenate([[0], np.cumsum(is_written)])
    moments = []
    bounds = np.linspace(min_past, case.num_tokens, num_moments + 1).astype(int).tolist()
    for low, high in itertools.pairwise(bounds):
        # The first token that follows is read, only those after it are predicted.
        starts = np.arange(low, max(low, high - next_tokens) + 1)
        stops = np.minimum(starts + next_tokens, case.num_tokens)
        counts = written[stops] - written[np.minimum(starts + 1, stops)]
        best = int(counts.argmax())
        if counts[best] >= _LEAST_SCORED:
            moments.append(Moment(int(starts[best]), int(stops[best])))
    return moments


def snapshot_key(case: QualityCase, moment: Moment, *identity: str) -> str:
    """Return 20 hex digits of all that a snapshot depends on.

    Args:
        case: The trace.
        moment: Where it is taken.
        identity: Names the model and the source of the tags.
    """
    digest = hashlib.sha256(case.tokens.input_ids.tobytes())
    digest.update(repr((moment, _CHUNK_TOKENS, case.trace.id, identity)).encode())
    return digest.hexdigest()[:20]


def take_snapshot(
    llm: LanguageModel,
    case: QualityCase,
    tagger: SessionTagger,
    moment: Moment,
    on_tokens: OnTokens | None = None,
) -> Snapshot:
    """Read a trace up to a moment and beyond it with a cache that keeps everything.

    Args:
        llm: The language model.
        case: The trace.
        tagger: Gives its tokens their regions.
        moment: Where the past ends.
        on_tokens: Called with the number of tokens after each forward.

    Raises:
        ModelError: A layer of the model has a sliding window, or is of an unknown kind.
        ArtifactError: The tagger was made for another language model.
    """
    tagger.check_llm(llm)
    cache = _FullCache(llm, tagger.region_table, moment.stop)
    tagging = begin_tagging(tagger, llm)
    tagging.read(Reading(case.trace.messages, case.rendered, case.tokens, 0, case.num_tokens))
    engine = Engine(llm, cache, tagging)
    with engine.attached():
        for start in range(0, moment.start, _CHUNK_TOKENS):
            end = min(start + _CHUNK_TOKENS, moment.start)
            engine.run(case.table.part(start, end))
            if on_tokens:
                on_tokens(end - start)
        past = cache.past()
        logits = engine.run(case.table.part(moment.start, moment.stop), keeps_all_logits=True)
        if on_tokens:
            on_tokens(moment.stop - moment.start)
    scored = _scored(case, moment)
    with bookkeeping():
        return Snapshot(
            trace=case.trace.id,
            input_ids=torch.from_numpy(case.tokens.input_ids[: moment.stop].astype(np.int64)),
            scored=scored,
            log_probs=logits[scored.to(logits.device)].float().log_softmax(dim=-1).cpu(),
            **past,
        )


def _scored(case: QualityCase, moment: Moment) -> Tensor:
    """Return the next tokens whose successor is one that the assistant wrote."""
    is_written = (case.tokens.role == _ASSISTANT) & ~case.tokens.is_special
    return torch.from_numpy(np.flatnonzero(is_written[moment.start + 1 : moment.stop]))


class _FullCache(DecayCache):
    """A cache with room for everything, which keeps the probabilities of its tags."""

    def __init__(self, llm: LanguageModel, table: RegionTable, num_tokens: int) -> None:
        config = CacheConfig(num_tokens + _CHUNK_TOKENS, num_sinks=0, num_recent=0)
        frequencies = RotaryFrequencies.of(find_decoder(llm.model))
        super().__init__(llm.model.config, config, table, frequencies, special_ids(llm.tokenizer))
        if not all(isinstance(layer, FadingLayer) for layer in self.layers):
            raise ModelError(
                f"{llm.name} has layers with a sliding window, which can't be tuned; use a model "
                "whose layers all have full attention"
            )
        self._region_probs = torch.zeros(num_tokens, NUM_REGIONS)
        self._region_probs[:, Region.ORDINARY_CONTEXT] = 1.0

    def set_tags(self, start: int, importance: Tensor, region_probs: Tensor) -> None:
        super().set_tags(start, importance, region_probs)
        stop = start + region_probs.shape[1]
        self._region_probs[start:stop] = region_probs[0].to(self._region_probs)

    def past(self) -> dict[str, Tensor]:
        """Return copies of a snapshot's columns that are known before the next tokens."""
        slots = self.slots
        with bookkeeping():
            return {
                "keys": torch.stack(
                    [layer.keys[0].to("cpu", torch.float16) for layer in self.layers]
                ),
                "values": torch.stack(
                    [layer.values[0].to("cpu", torch.float16) for layer in self.layers]
                ),
                "region_probs": self._region_probs[: slots.num_kept].clone(),
                "attention": slots.attention[0].cpu().clone(),
            }
