"""A recorded trace, prepared: its tokens, the predictions to compare, the spans to recall."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.features import role_code
from memdecay.classifier.rendering import RenderedConversation, render
from memdecay.classifier.rules import rule_labels
from memdecay.classifier.token_regions import most_covering, rendered_regions
from memdecay.classifier.tokenization import TokenizedConversation, tokenize
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.bench.quality.probes import Probe, choose_probes
from memdecay.runtime.bench.quality.spans import argument_characters, copied_from_far
from memdecay.runtime.transcript import TokenTable

_ASSISTANT = role_code("assistant")
_BLOCK_TOKENS = 32


@dataclass(frozen=True, slots=True)
class QualityTrace:
    """A recorded conversation.

    Attributes:
        id: Its name, unique among the traces of a benchmark.
        source: Where it comes from; empty if unknown.
        messages: OpenAI chat messages.
        regions: For each message the region of each character of its content, int8, -1 where
            unlabelled; None where rules have to find the regions.
    """

    id: str
    source: str
    messages: tuple[Mapping[str, Any], ...]
    regions: tuple[NDArray[np.int8], ...] | None = None


@dataclass(frozen=True)
class QualityCase:
    """What is measured on one trace.

    Attributes:
        trace: The conversation.
        rendered: Its text.
        tokens: The tokens of that text.
        regions: ``(n,)``, int8; region of each token, -1 where unlabelled.
        positions: ``(m,)``, int64, rising; tokens whose prediction of the next one is compared.
        is_argument: ``(m,)``, bool; whether the next token belongs to a tool call's arguments.
        is_copied: ``(m,)``, bool; whether the next token belongs to a span copied from far back.
        last_turn: First token that the assistant wrote in its last message; None if it wrote none.
        prompt_ids: ``(k,)``, int64; the head of an assistant's answer in the model's template.
        probes: The spans to recall.
    """

    trace: QualityTrace
    rendered: RenderedConversation
    tokens: TokenizedConversation
    regions: NDArray[np.int8]
    positions: NDArray[np.int64]
    is_argument: NDArray[np.bool_]
    is_copied: NDArray[np.bool_]
    last_turn: int | None
    prompt_ids: NDArray[np.int64]
    probes: tuple[Probe, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of the trace."""
        return self.tokens.num_tokens

    @property
    def targets(self) -> NDArray[np.int64]:
        """The tokens that follow `positions`, ``(m,)``, int64."""
        return self.tokens.input_ids[self.positions + 1]

    @cached_property
    def table(self) -> TokenTable:
        """The tokens as the engine runs them."""
        return TokenTable.of(self.tokens)

    @cached_property
    def digest(self) -> str:
        """16 hex digits of everything that a reference depends on but the model."""
        digest = hashlib.sha256(self.tokens.input_ids.tobytes())
        digest.update(self.positions.tobytes())
        digest.update(self.prompt_ids.tobytes())
        digest.update(repr((self.last_turn, self.probes)).encode())
        return digest.hexdigest()[:16]


def prepare_case(trace: QualityTrace, tokenizer: Any, config: QualityConfig) -> QualityCase:
    """Render and tokenize a trace and choose what is measured on it.

    Args:
        trace: The conversation, at least one message.
        tokenizer: The model's tokenizer.
        config: What to choose.

    Raises:
        ModelError: The tokenizer gives no character offsets.
    """
    rendered = render(trace.messages, tokenizer)
    tokens = tokenize(rendered, tokenizer)
    regions = _token_regions(trace, rendered, tokens)
    is_written = (tokens.role == _ASSISTANT) & ~tokens.is_special
    last_turn = _last_turn(rendered, tokens)
    targets = _choose_targets(is_written, last_turn, config)
    characters = argument_characters(trace.messages, rendered)
    is_argument = characters[tokens.offsets[targets, 0].clip(max=len(characters) - 1)]
    is_copied = copied_from_far(tokens.input_ids, config.copy_tokens, config.copy_distance)
    return QualityCase(
        trace=trace,
        rendered=rendered,
        tokens=tokens,
        regions=regions,
        positions=targets - 1,
        is_argument=is_argument,
        is_copied=is_copied[targets],
        last_turn=last_turn,
        prompt_ids=_prompt_ids(trace.messages, rendered, tokenizer),
        probes=choose_probes(tokens.input_ids, regions, tokens.message_index, config),
    )


def _token_regions(
    trace: QualityTrace, rendered: RenderedConversation, tokens: TokenizedConversation
) -> NDArray[np.int8]:
    labels: Sequence[NDArray[np.int8]] = (
        rule_labels(trace.messages) if trace.regions is None else trace.regions
    )
    characters = rendered_regions(labels, rendered)
    return most_covering(characters, tokens.offsets[:, 0], tokens.offsets[:, 1])


def _last_turn(rendered: RenderedConversation, tokens: TokenizedConversation) -> int | None:
    for message in reversed(rendered.messages):
        starts = [
            start
            for start, end in (
                (message.content_start, message.content_end),
                (message.calls_start, message.calls_end),
            )
            if end > start
        ]
        if role_code(message.role) == _ASSISTANT and starts:
            token = int(np.searchsorted(tokens.offsets[:, 0], min(starts)))
            return token if 0 < token < tokens.num_tokens else None
    return None


def _choose_targets(
    is_written: NDArray[np.bool_], last_turn: int | None, config: QualityConfig
) -> NDArray[np.int64]:
    """Choose assistant tokens: the last turn's first, then blocks spread evenly over the rest."""
    num_tokens = len(is_written)
    start = max(1, int(config.first_share * num_tokens))
    written = np.flatnonzero(is_written)
    written = written[written >= start].astype(np.int64)
    if len(written) <= config.max_scored:
        return written
    is_last = written >= (num_tokens if last_turn is None else last_turn)
    last = written[is_last][: max(1, config.max_scored // 2)]
    rest = written[~is_last]
    num_blocks = (config.max_scored - len(last)) // _BLOCK_TOKENS
    blocks = [rest[i : i + _BLOCK_TOKENS] for i in range(0, len(rest), _BLOCK_TOKENS)]
    if num_blocks < len(blocks):
        chosen = [(2 * i + 1) * len(blocks) // (2 * num_blocks) for i in range(num_blocks)]
        blocks = [blocks[i] for i in chosen]
    return np.concatenate([*blocks, last]).astype(np.int64)


def _prompt_ids(
    messages: Sequence[Mapping[str, Any]], rendered: RenderedConversation, tokenizer: Any
) -> NDArray[np.int64]:
    prompted = render(messages, tokenizer, add_generation_prompt=True)
    if not prompted.text.startswith(rendered.text):
        return np.empty(0, np.int64)
    head = prompted.text[len(rendered.text) :]
    ids = tokenizer(head, add_special_tokens=False)["input_ids"] if head else []
    return np.asarray(ids, np.int64)
