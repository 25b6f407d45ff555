from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from memdecay.classifier.features import role_code
from memdecay.classifier.regions import Region
from memdecay.classifier.rendering import render
from memdecay.runtime.bench.quality.case import prepare_case
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.bench.quality.probes import AGES
from memdecay.runtime.bench.quality.spans import argument_characters
from tests.runtime.bench.traces import SMALL, case, language_model, trace


def test_predicted_tokens_are_the_assistants_own() -> None:
    tokens = case().tokens
    targets = case().positions + 1

    assert (tokens.role[targets] == role_code("assistant")).all()
    assert not tokens.is_special[targets].any()
    assert (np.diff(targets) > 0).all()
    assert len(targets) <= SMALL.max_scored
    assert targets[0] >= SMALL.first_share * case().num_tokens
    assert case().targets.tolist() == tokens.input_ids[targets].tolist()


def test_last_turn_is_always_compared_and_begins_with_its_content() -> None:
    prepared = case()
    start = prepared.tokens.offsets[prepared.last_turn, 0]

    assert prepared.rendered.text[start:].startswith("Done: the code word")
    assert prepared.last_turn in (prepared.positions + 1)


def test_few_tokens_are_compared_whole() -> None:
    config = dataclasses.replace(SMALL, max_scored=10_000, first_share=0.0)
    prepared = prepare_case(trace(), language_model().tokenizer, config)
    is_written = (prepared.tokens.role == role_code("assistant")) & ~prepared.tokens.is_special

    assert (prepared.positions + 1).tolist() == np.flatnonzero(is_written).tolist()


def test_arguments_are_those_of_the_calls() -> None:
    said = (
        {"role": "user", "content": 'say {"arguments": 1}'},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "f", "arguments": {"path": "a.py"}}}],
        },
        {"role": "assistant", "content": "I look.\n```bash\nls -la\n```\nDone."},
    )
    rendered = render(said, language_model().tokenizer)

    marked = argument_characters(said, rendered)

    chosen = "".join(c for c, is_chosen in zip(rendered.text, marked, strict=True) if is_chosen)
    assert '{"path": "a.py"}' in chosen
    assert "ls -la" in chosen
    assert '"name"' not in chosen
    assert "say" not in chosen
    assert "Done" not in chosen


def test_probes_are_unique_spans_of_one_region_and_message() -> None:
    prepared = case(is_labelled=True)
    text = prepared.tokens.input_ids.tolist()

    assert {probe.region for probe in prepared.probes} <= {
        Region.SYSTEM_INSTRUCTION,
        Region.ORDINARY_CONTEXT,
        Region.TOOL_SUMMARY,
    }
    for probe in prepared.probes:
        span = slice(probe.start, probe.end)
        assert set(prepared.regions[span]) == {probe.region}
        assert len(set(prepared.tokens.message_index[span])) == 1
        cue = text[probe.start : probe.start + probe.num_cue]
        found = [i for i in range(len(text)) if text[i : i + probe.num_cue] == cue]
        assert found == [probe.start]
        least, end = next((least, end) for name, least, end in AGES if name == probe.age)
        assert least <= prepared.num_tokens - probe.start < end


def test_each_region_and_age_has_so_many_probes() -> None:
    config = dataclasses.replace(SMALL, probes_per_cell=2)
    probes = prepare_case(trace(24), language_model().tokenizer, config).probes

    cells = [(probe.region, probe.age) for probe in probes]
    assert max(cells.count(cell) for cell in cells) == 2, cells
    assert {age for _, age in cells} == {name for name, _, _ in AGES}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chunk_tokens", 0),
        ("max_scored", 0),
        ("cue_tokens", 0),
        ("copy_distance", -1),
        ("probes_per_cell", -1),
        ("first_share", 1.0),
    ],
)
def test_settings_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        QualityConfig(**{name: value})
