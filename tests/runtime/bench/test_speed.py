"""The speed benchmark: what it counts and whom it gives the time, with a clock that only ticks."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from memdecay.classifier.errors import BudgetError, ConfigError, ModelError
from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.bench.caches.variants import parse_variant
from memdecay.runtime.bench.speed import contestants
from memdecay.runtime.bench.speed.config import SpeedConfig
from memdecay.runtime.bench.speed.contestants import BASELINE, Candidate, Lineup
from memdecay.runtime.bench.speed.report import speed_table, write_speed_report
from memdecay.runtime.bench.speed.row import CacheState, Measured, SpeedRow, make_row
from memdecay.runtime.bench.speed.run import SpeedBenchmark
from memdecay.runtime.bench.speed.stand_ins import random_classifier, random_head, random_llm
from memdecay.runtime.bench.speed.timed import PARTS
from memdecay.runtime.bench.speed.timing import PartTimers, device_clock
from memdecay.runtime.tagger import RegionTagger
from tests.tiny import tiny_language_model

TINY_CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
    "max_position_embeddings": 512,
}


class Ticks:
    """A clock that goes on by one second each time it is read."""

    def __init__(self) -> None:
        self._seconds = count()

    def __call__(self) -> float:
        return float(next(self._seconds))


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(num_layers=3, max_position_embeddings=1024)


@pytest.fixture(scope="module")
def tagger(llm: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> RegionTagger:
    return RegionTagger(random_classifier(llm, tmp_path_factory.mktemp("speed") / "c"), "cpu")


CONFIG = SpeedConfig(
    seen=(96, 160), budget=64, num_steps=8, block_steps=4, chunk_tokens=24, num_recent=12
)
NAMES = ("memdecay+no-fading", "memdecay", "streaming@none", "learned@none")


@pytest.fixture(scope="module")
def rows(llm: LanguageModel, tagger: RegionTagger) -> list[SpeedRow]:
    variants = tuple(parse_variant(name) for name in NAMES)
    return SpeedBenchmark(Lineup(llm, variants, CONFIG, tagger, random_head(llm)), Ticks()).run()


def test_a_part_inside_another_counts_for_itself_alone() -> None:
    timers = PartTimers(Ticks())
    timers.is_on = True

    with timers.part("outer"):
        with timers.part("inner"):
            pass
        with timers.part("inner"):
            pass

    # Outer opens at 0 and closes at 5; the inner ones take 1 to 2 and 3 to 4.
    assert timers.seconds == {"outer": 3.0, "inner": 2.0}


def test_time_between_parts_is_nobodys() -> None:
    timers = PartTimers(Ticks())
    timers.is_on = True
    with timers.part("first"):
        pass
    timers._clock()  # Someone else's second.
    with timers.part("second"):
        pass
    assert timers.seconds == {"first": 1.0, "second": 1.0}


def test_timers_that_are_off_read_no_clock() -> None:
    clock = Ticks()
    timers = PartTimers(clock)
    with timers.part("any"):
        pass
    assert timers.seconds == {}
    assert clock() == 0.0


def test_a_part_that_fails_ends_all_the_same() -> None:
    timers = PartTimers(Ticks())
    timers.is_on = True
    with pytest.raises(KeyError), timers.part("fails"):
        raise KeyError
    with timers.part("next"):
        pass
    assert timers.seconds == {"fails": 1.0, "next": 1.0}


def test_every_contestant_has_a_row_for_each_number_of_tokens(rows: list[SpeedRow]) -> None:
    assert [(row.seen, row.policy) for row in rows] == [
        (seen, name) for seen in CONFIG.seen for name in (BASELINE, *NAMES)
    ]
    assert all(row.num_steps == CONFIG.num_steps for row in rows)


def test_a_step_is_the_time_between_two_looks_at_the_clock(rows: list[SpeedRow]) -> None:
    # No part's timer reads the clock while steps are timed, so each step takes one tick.
    for row in rows:
        assert row.decode_ms == row.decode_ms_p99 == 1000.0
        assert row.decode_ratio == pytest.approx(1.0)
        assert row.prefill_tokens_per_s <= CONFIG.chunk_tokens


def test_bytes_stay_within_the_budget_and_grow_without_one(rows: list[SpeedRow]) -> None:
    per_token = next(row for row in rows if row.policy == BASELINE).kv_bytes / (96 + 16)
    for row in rows:
        if row.policy == BASELINE:
            assert row.peak_kv_bytes == row.kv_bytes == per_token * (row.seen + 16)
            assert row.tokens_kept == row.seen + 16
        else:
            assert row.budget_tokens == 64
            assert max(held for _, held in row.memory) <= row.peak_kv_bytes <= 64 * per_token


def test_memory_over_time_covers_prefill_and_decoding(rows: list[SpeedRow]) -> None:
    for row in rows:
        tokens = [tokens for tokens, _ in row.memory]
        assert tokens == sorted(set(tokens))
        assert tokens[-1] == row.seen + CONFIG.num_steps


def test_parts_show_up_where_there_is_something_to_do(rows: list[SpeedRow]) -> None:
    parts = {row.policy: set(row.parts_ms) for row in rows}
    assert parts[BASELINE] == {"attention"}
    assert parts["memdecay"] == set(PARTS)
    assert parts["memdecay+no-fading"] == set(PARTS)
    assert "tagging" not in parts["streaming@none"]
    assert "observing" not in parts["streaming@none"]
    for row in rows:
        assert 0 < sum(row.parts_ms.values()) < row.parts_step_ms


def test_the_model_is_as_before(llm: LanguageModel, tagger: RegionTagger) -> None:
    def hooks(module: nn.Module) -> int:
        return sum(
            len(child._forward_hooks) + len(child._forward_pre_hooks) for child in module.modules()
        )

    before = hooks(llm.model), llm.model.config._attn_implementation
    lineup = Lineup(llm, (parse_variant("memdecay"),), CONFIG, tagger)
    SpeedBenchmark(lineup, Ticks()).run()
    assert (hooks(llm.model), llm.model.config._attn_implementation) == before


def test_timed_caches_say_what_untimed_ones_say(llm: LanguageModel, tagger: RegionTagger) -> None:
    def last_logits(is_on: bool) -> torch.Tensor:
        timers = PartTimers(Ticks())
        timers.is_on = is_on
        lineup = Lineup(llm, (parse_variant("memdecay"),), CONFIG, tagger)
        contestant = lineup.make(96, timers)[1]
        assert isinstance(contestant, Candidate)
        ids = torch.arange(120).remainder(90).unsqueeze(0) + 3
        with contestant.attached(), torch.inference_mode():
            for chunk in ids.split(20, dim=1):
                out = llm.model(input_ids=chunk, cache=contestant.cache, use_cache=True)
        return torch.as_tensor(out.logits)

    torch.testing.assert_close(last_logits(True), last_logits(False), rtol=0, atol=0)


def test_the_head_looks_at_tokens_where_a_policy_goes_by_it(
    llm: LanguageModel, tagger: RegionTagger
) -> None:
    variants = tuple(parse_variant(name) for name in ("memdecay", "learned@none", "tova@none"))
    lineup = Lineup(llm, variants, CONFIG, tagger, random_head(llm))
    looked = []
    for contestant in lineup.make(96, PartTimers(Ticks()))[1:]:
        assert isinstance(contestant, Candidate)
        with contestant.attached(), torch.inference_mode():
            for chunk in (torch.arange(120).remainder(90)[None] + 3).split(20, dim=1):
                llm.model(input_ids=chunk, cache=contestant.cache, use_cache=True)
        looked.append(not contestant.cache.slots.foresight.isnan().all())
    assert looked == [True, True, False]


def test_kernels_are_loaded_before_anything_is_timed_and_that_is_named(
    llm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, rehearsed_at = Ticks(), []
    monkeypatch.setattr(contestants, "rehearse_fading", lambda *_: rehearsed_at.append(clock()))
    variants = tuple(parse_variant(name) for name in ("memdecay@none", "full@none"))
    benchmark = SpeedBenchmark(Lineup(llm, variants, CONFIG, None), clock)
    assert benchmark.preparation_s == 0.0
    benchmark.run()
    assert rehearsed_at == [1.0, 2.0]  # the clock's first reading is where it begins
    assert benchmark.preparation_s == 3.0


def test_progress_ends_at_its_total(llm: LanguageModel) -> None:
    calls: list[tuple[int, int]] = []
    lineup = Lineup(llm, (parse_variant("window@none"),), CONFIG, None)
    written: list[int] = []

    SpeedBenchmark(lineup, Ticks()).run(
        lambda done, total: calls.append((done, total)), lambda rows: written.append(len(rows))
    )

    assert calls[-1][0] == calls[-1][1]
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert written == [2, 4]


def test_a_share_gives_each_size_a_budget_of_its_own() -> None:
    config = SpeedConfig(budget=0.125)
    assert [config.budget_tokens(seen) for seen in (4096, 8192)] == [512, 1024]


def test_a_budget_that_is_too_small_is_refused_before_anything_runs(llm: LanguageModel) -> None:
    config = SpeedConfig(seen=(64,), budget=8)
    clock = Ticks()
    with pytest.raises(BudgetError, match="protected"):
        SpeedBenchmark(Lineup(llm, (parse_variant("memdecay"),), config, None), clock).run()
    assert clock() == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seen": ()}, "seen must be"),
        ({"seen": (2, 1)}, "seen must be"),
        ({"seen": (0,)}, "seen must be"),
        ({"num_steps": 0}, "num_steps must be 1"),
        ({"block_steps": 0}, "block_steps must be 1"),
        ({"chunk_tokens": 0}, "chunk_tokens must be 1"),
        ({"num_recent": -1}, "num_recent must be 0"),
        ({"budget": 0}, "budget must be"),
        ({"budget": 1.5}, "budget must be"),
        ({"kv_dtype": "int8"}, "kv_dtype must be"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpeedConfig(**options)


def test_ratios_pair_the_blocks_and_p99_is_the_quantile() -> None:
    base = Measured([2.0], [100], [[1.0, 1.0], [3.0, 3.0]], {}, 0.0, 0, [])
    # Twice the baseline's time in the quick turn as in the slow one.
    own = Measured([4.0], [100], [[2.0, 2.0], [6.0, 6.0]], {"moving": 3.0}, 12.0, 4, [(100, 5)])

    row = make_row(
        100, CacheState("a", 10, 7, 50, 60), own, CacheState(BASELINE, None, 104, 600, 600), base
    )

    assert row.decode_ratio == pytest.approx(2.0)
    assert (row.decode_ratio_low, row.decode_ratio_high) == pytest.approx((2.0, 2.0))
    assert row.decode_ms == 4000.0
    assert row.decode_ms_p99 == pytest.approx(1000 * np.quantile([2, 2, 6, 6], 0.99))
    assert row.decode_mean_ratio == pytest.approx(2.0)
    assert row.prefill_ratio == pytest.approx(2.0)
    assert row.prefill_tokens_per_s == pytest.approx(25.0)
    assert row.peak_ratio == pytest.approx(0.1)
    assert row.parts_ms == {"moving": 750.0}
    assert row.parts_step_ms == 3000.0


def test_the_report_holds_rows_tables_and_plots(
    rows: list[SpeedRow], llm: LanguageModel, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    report = write_speed_report(tmp_path, rows, CONFIG, llm, 1.25)

    data = json.loads((tmp_path / "results.json").read_text())
    assert len(data["rows"]) == len(rows)
    assert {"machine", "settings", "baseline", "preparation_s", "rows"} == set(data)
    text = report.read_text()
    for expected in (BASELINE, *NAMES, *PARTS, "memory.svg", "64 tokens at full precision"):
        assert expected in text
    lines = [line.count("|") for line in text.splitlines() if line.startswith("| ")]
    assert len(set(lines)) == 2  # one width for each of the two tables
    for name in ("decode.svg", "decode.png", "memory.svg"):
        assert (tmp_path / name).stat().st_size > 1000
    assert speed_table(rows).row_count == len(rows)
    assert "in no row: 1.2 s for loading" in (tmp_path / "summary.md").read_text()
    assert json.loads((tmp_path / "results.json").read_text())["preparation_s"] == 1.25


def test_the_clock_of_a_cpu_goes_forward() -> None:
    now = device_clock(torch.device("cpu"))
    assert now() <= now()


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_model_is_built_from_its_config_alone(tmp_path: Path, is_folder: bool) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY_CONFIG))

    llm = random_llm(tmp_path if is_folder else path, "bfloat16", "cpu")

    assert llm.hidden_size == 32
    assert llm.tokenizer is None
    assert llm.model.get_input_embeddings().weight.dtype == torch.bfloat16
    assert not llm.model.training
    assert llm.model.get_input_embeddings().weight.float().std() > 0.01
    assert not any(parameter.requires_grad for parameter in llm.model.parameters())


def test_building_a_model_leaves_the_seed_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY_CONFIG))
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    random_llm(path, "float32", "cpu")
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("text", ["not json", "{}", '{"model_type": "no-such-model"}'])
def test_a_config_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ModelError, match="configuration"):
        random_llm(path, "float32", "cpu")


def test_a_missing_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="configuration"):
        random_llm(tmp_path / "none.json", "float32", "cpu")


def test_a_config_of_no_causal_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "clip_vision_model"}))
    with pytest.raises(ModelError, match="no model can be built"):
        random_llm(path, "float32", "cpu")


def test_an_unknown_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="device"):
        random_llm(tmp_path, "float32", "gpu")


def test_the_shipped_config_has_an_8b_models_shape() -> None:
    path = Path(__file__).parents[3] / "benchmarks" / "configs" / "llama-8b.json"
    config = json.loads(path.read_text())
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    key_value = config["num_key_value_heads"] * config["head_dim"]
    layer = 2 * hidden * hidden + 2 * hidden * key_value + 3 * hidden * inner
    num_weights = config["num_hidden_layers"] * layer + 2 * config["vocab_size"] * hidden
    assert num_weights == pytest.approx(8.0e9, rel=0.01)
