"""Region tags for a whole trace, as stretches of its messages' text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from memdecay.classifier.artifact import ClassifierArtifact
from memdecay.classifier.export import run_session
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.classifier.rendering import RenderedConversation, RenderedMessage, render
from memdecay.classifier.tokenization import TokenizedConversation, tokenize
from memdecay.data.backbone import hidden_states_in_chunks
from memdecay.data.trace import Trace
from memdecay.data.windows import split_into_windows

_CHUNK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class TaggedSpan:
    """Neighbouring tokens with one region, as a stretch of the rendered text.

    Attributes:
        message: Index of the message; -1 for text that the chat template put before the first.
        start: First character in the rendered text.
        end: Its end.
        region: The most probable region of its tokens.
        confidence: Mean probability of that region.
        importance: Mean propagated importance.
        is_template: Whether it is the template's own text, not a message's.
    """

    message: int
    start: int
    end: int
    region: Region
    confidence: float
    importance: float
    is_template: bool


@dataclass(frozen=True, slots=True)
class TaggedTrace:
    """A trace's rendered text and its tags, in order and without gaps between tokens."""

    rendered: RenderedConversation
    spans: tuple[TaggedSpan, ...]


def tag_trace(trace: Trace, llm: LanguageModel, artifact: ClassifierArtifact) -> TaggedTrace:
    """Tag every token of a trace with the exported graph.

    A trace longer than the model's context is read in windows, as in training.

    Args:
        trace: The trace; its labels, if any, are not looked at.
        llm: The model that the classifier was trained on.
        artifact: The classifier; `ClassifierArtifact.check_llm` it first.

    Raises:
        ModelError: The tokenizer gives no character offsets.
        ArtifactError: ONNX Runtime cannot open the graph.
    """
    rendered = render([message.to_openai() for message in trace.messages], llm.tokenizer)
    tokens = tokenize(rendered, llm.tokenizer)
    region_probs, importance = _tag_tokens(tokens, llm, artifact)
    is_template = ~_covered(rendered.messages, tokens.offsets)
    spans = _merge(tokens, region_probs, importance, is_template)
    return TaggedTrace(rendered, spans)


def _tag_tokens(
    tokens: TokenizedConversation, llm: LanguageModel, artifact: ClassifierArtifact
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    session = artifact.open_session()
    layer = artifact.card.feature_layout.layer
    features = tokens.position_features()
    region_probs = np.zeros((tokens.num_tokens, NUM_REGIONS), np.float32)
    importance = np.zeros(tokens.num_tokens, np.float32)
    windows, _ = split_into_windows(tokens.message_index, llm.max_context)
    for window in windows:
        rows = slice(window.start, window.end)
        chunks = hidden_states_in_chunks(llm, tokens.input_ids[rows], layer, _CHUNK_TOKENS)
        hidden_states = np.concatenate(list(chunks)).astype(np.float32)
        probs, scores = run_session(
            session,
            (
                torch.from_numpy(hidden_states[None]),
                torch.from_numpy(features[None, rows]),
                torch.ones(1, window.num_tokens, dtype=torch.bool),
            ),
        )
        region_probs[rows], importance[rows] = probs[0], scores[0]
    return region_probs, importance


def _covered(
    messages: tuple[RenderedMessage, ...], offsets: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which tokens begin inside a message's content or its calls."""
    covered = np.zeros(len(offsets), np.bool_)
    starts = offsets[:, 0]
    for message in messages:
        for start, end in (
            (message.content_start, message.content_end),
            (message.calls_start, message.calls_end),
        ):
            low, high = np.searchsorted(starts, (start, end))
            covered[low:high] = True
    return covered


def _merge(
    tokens: TokenizedConversation,
    region_probs: NDArray[np.float32],
    importance: NDArray[np.float32],
    is_template: NDArray[np.bool_],
) -> tuple[TaggedSpan, ...]:
    if tokens.num_tokens == 0:
        return ()
    regions = region_probs.argmax(axis=1)
    confidence = region_probs.max(axis=1)
    keys = np.stack([regions, tokens.message_index, is_template], axis=1)
    firsts = np.flatnonzero(np.any(np.diff(keys, axis=0, prepend=keys[:1] - 1) != 0, axis=1))
    ends = np.append(firsts[1:], tokens.num_tokens)
    return tuple(
        TaggedSpan(
            message=int(tokens.message_index[first]),
            start=int(tokens.offsets[first, 0]),
            end=int(tokens.offsets[end - 1, 1]),
            region=Region(int(regions[first])),
            confidence=float(confidence[first:end].mean()),
            importance=float(importance[first:end].mean()),
            is_template=bool(is_template[first]),
        )
        for first, end in zip(firsts.tolist(), ends.tolist(), strict=True)
    )
