from pathlib import Path

import numpy as np
import pytest
import torch

from memdecay.classifier.features import NUM_POSITION_FEATURES, position_features
from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.data.extraction import ExtractionConfig, extract
from memdecay.data.trace import Message, Trace
from memdecay.training.baselines import (
    POSITION,
    RULES,
    fit_position_baseline,
    measure_baselines,
    rule_probs,
    rule_regions,
)
from memdecay.training.chunks import Window
from tests.tiny import tiny_language_model
from tests.training.windows import ListSource, learnable_source

USER, ASSISTANT, TOOL = 1, 2, 3


def window_of_roles(roles: np.ndarray, labels: np.ndarray, seed: int) -> Window:
    """Return a window whose hidden states are noise."""
    count = np.arange(len(roles))
    hidden = np.random.default_rng(seed).normal(size=(len(roles), 4)).astype(np.float16)
    return Window(hidden, position_features(count, count, count, roles), labels.astype(np.int8))


def source_told_by_role() -> ListSource:
    """Return windows in which the role alone tells the region; a tenth is unlabelled."""
    generator = np.random.default_rng(0)
    region_of_role = np.array(
        [-1, Region.RECENT_DIALOGUE, Region.KEY_DECISION, Region.TOOL_SUMMARY]
    )
    windows = []
    for seed in range(6):
        roles = generator.integers(USER, TOOL + 1, 200)
        labels = np.where(generator.random(200) < 0.1, -1, region_of_role[roles])
        windows.append(window_of_roles(roles, labels, seed))
    return ListSource(windows)


def test_position_baseline_learns_what_the_role_tells() -> None:
    source = source_told_by_role()
    probs, labels = fit_position_baseline(source, range(4)).region_probs(source, [4, 5])
    assert (probs.argmax(dim=1) == labels).all()
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(len(labels)))
    expected = sum(int((source.window(index).labels >= 0).sum()) for index in (4, 5))
    assert len(labels) == expected


def test_position_baseline_does_not_look_at_hidden_states() -> None:
    source = source_told_by_role()
    blind = ListSource(
        [Window(w.hidden_states * 0, w.position_features, w.labels) for w in source.windows]
    )
    seeing, _ = fit_position_baseline(source, range(4)).region_probs(source, [4])
    unseeing, _ = fit_position_baseline(blind, range(4)).region_probs(blind, [4])
    torch.testing.assert_close(seeing, unseeing)


def test_position_baseline_without_labels_is_refused() -> None:
    roles = np.full(5, USER)
    source = ListSource([window_of_roles(roles, np.full(5, -1), 0)])
    with pytest.raises(ValueError, match="at least one labelled token"):
        fit_position_baseline(source, [0])


def test_rules_are_measured_on_the_same_tokens() -> None:
    source = learnable_source(4, 6, NUM_POSITION_FEATURES)
    right = [np.maximum(window.labels, 0) for window in source.windows]
    figures = measure_baselines(source, [0, 1], [2, 3], right)
    assert figures[RULES].accuracy == 1.0
    assert figures[RULES].tokens == figures[POSITION].tokens
    assert figures[POSITION].accuracy < 0.6


def test_rules_are_left_out_where_there_are_none() -> None:
    source = learnable_source(3, 6, NUM_POSITION_FEATURES)
    assert set(measure_baselines(source, [0, 1], [2], None)) == {POSITION}


def test_rule_regions_follow_the_windows_of_a_split_trace(tmp_path: Path) -> None:
    llm = tiny_language_model()
    call = {"function": {"name": "search", "arguments": '{"query": "status"}'}}
    trace = Trace(
        "a",
        (
            Message("system", "You are a careful agent. Follow the policy. " * 4),
            Message("user", "What is the status of my order?"),
            Message("assistant", "", ({"type": "function", **call},)),
            Message("tool", "order status: sent " * 8),
        ),
    )
    store = extract(
        [trace], llm, 1, tmp_path, ExtractionConfig(chunk_tokens=64, max_window_tokens=100)
    )
    regions = rule_regions([trace], store, llm.tokenizer)
    assert len(store) > 1
    assert [len(row) for row in regions] == [store.num_tokens(i) for i in range(len(store))]
    joined = np.concatenate(regions)
    message = np.concatenate([store.window(i).message_index for i in range(len(store))])
    assert set(joined.tolist()) <= set(range(NUM_REGIONS))
    most_common = np.bincount(joined[message == 0], minlength=NUM_REGIONS).argmax()
    assert most_common == Region.SYSTEM_INSTRUCTION
    assert Region.TOOL_SUMMARY in joined[message == 2]


def test_rule_probs_are_certain_and_skip_unlabelled_tokens() -> None:
    source = learnable_source(2, 6, NUM_POSITION_FEATURES)
    rules = [np.full(len(window.labels), 3, np.int8) for window in source.windows]
    probs = rule_probs(source, [1], rules)
    assert probs.shape == (int((source.window(1).labels >= 0).sum()), NUM_REGIONS)
    assert (probs[:, 3] == 1).all()
    assert (probs.sum(dim=1) == 1).all()
