from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memdecay.classifier.errors import BudgetError, ConfigError
from memdecay.runtime.bench.caches.headwise_methods import HEADWISE
from memdecay.runtime.bench.caches.make import Contestants
from memdecay.runtime.bench.caches.variants import BASELINES, Variant, parse_variant
from memdecay.runtime.bench.quality import run as run_module
from memdecay.runtime.bench.quality.case import QualityCase
from memdecay.runtime.bench.quality.reference import Reference
from memdecay.runtime.bench.quality.row import QualityRow
from memdecay.runtime.bench.quality.run import Places, QualityBenchmark
from memdecay.runtime.bench.report.table import ResultTable
from memdecay.runtime.policies import POLICIES
from memdecay.runtime.rule_tagger import RuleTagger
from tests.runtime.bench.traces import SMALL, case, language_model
from tests.tiny import tiny_head

EVERYTHING = (*POLICIES, *HEADWISE, "memdecay@rules", "memdecay@gold", "memdecay@none+no-caps")


def benchmark(folder: Path, **options: Any) -> QualityBenchmark:
    contestants = Contestants(
        language_model(), SMALL, {"rules": RuleTagger()}, foresight=tiny_head(2 * 2 * 2)
    )
    return QualityBenchmark(contestants, Places(folder, folder / "references"), **options)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[QualityRow]:
    folder = tmp_path_factory.mktemp("bench")
    variants = [parse_variant(name) for name in EVERYTHING]
    return benchmark(folder).run([case(is_labelled=True)], variants, [0.2, 1.0])


@pytest.mark.parametrize("policy", ["full", "window", "tova@rules", "learned", "snapkv-per-head"])
def test_what_knows_no_regions_gets_no_tags_and_keeps_its_rows_whoever_tags(policy: str) -> None:
    contestants = Contestants(language_model(), SMALL, {}, default_tags="classifier")
    assert contestants.tags_of(parse_variant(policy)) == "none"
    assert contestants.tags_of(parse_variant("memdecay")) == "classifier"


def find(rows: list[QualityRow], policy: str, budget: float) -> QualityRow:
    return next(row for row in rows if (row.policy, row.budget) == (policy, budget))


def test_full_cache_has_no_divergence_from_itself(rows: list[QualityRow]) -> None:
    row = find(rows, "full", 1.0)

    assert row.kl == 0.0
    assert row.delta_nll == 0.0
    assert row.top1 == 1.0
    assert row.is_continuation_equal
    assert [span.nll for span in row.recall] == [span.full_nll for span in row.recall]


@pytest.mark.parametrize("policy", [name for name in EVERYTHING if name != "full"])
def test_budget_of_everything_changes_nothing(rows: list[QualityRow], policy: str) -> None:
    row = find(rows, policy, 1.0)

    assert row.kl < 1e-9
    assert row.is_continuation_equal


@pytest.mark.parametrize("policy", [name for name in EVERYTHING if name != "full"])
def test_small_budget_costs_quality_and_holds_its_bytes(
    rows: list[QualityRow], policy: str
) -> None:
    row = find(rows, policy, 0.2)

    assert row.kl > 1e-6
    assert row.kv_bytes <= 0.2 * row.full_bytes * 1.01
    assert row.kv_bytes >= 0.15 * row.full_bytes
    assert 0 <= row.top1 <= 1


def test_everything_is_measured_that_the_trace_has(rows: list[QualityRow]) -> None:
    row = find(rows, "streaming", 0.2)

    assert row.num_scored > row.num_tool > 0
    assert row.num_copied > 0
    assert math.isfinite(row.kl_tool)
    assert math.isfinite(row.kl_copied)
    assert row.recall
    assert row.continuation_tokens == SMALL.continuation_tokens


def test_rows_come_back_from_plain_data(rows: list[QualityRow]) -> None:
    for row in rows:
        data = json.loads(json.dumps(row.to_dict()))
        assert QualityRow.from_dict(data).to_dict() == data


def test_killed_run_goes_on_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = [parse_variant(name) for name in ("window", "streaming")]
    cases = [case(4), case(5)]
    done: list[tuple[str, str]] = []
    evaluate, make_reference = run_module.evaluate, run_module.make_reference
    references: list[str] = []

    def counting(variant: Variant, budget: float, case: QualityCase, *rest: Any) -> QualityRow:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append((case.trace.id, variant.name))
        return evaluate(variant, budget, case, *rest)

    def counting_references(folder: Path, case: QualityCase, *rest: Any) -> Reference:
        references.append(case.trace.id)
        return make_reference(folder, case, *rest)

    monkeypatch.setattr(run_module, "evaluate", counting)
    monkeypatch.setattr(run_module, "make_reference", counting_references)
    with pytest.raises(KeyboardInterrupt):
        benchmark(tmp_path).run(cases, variants, [0.5])
    assert len(json.loads((tmp_path / "results.json").read_text())) == 2

    done.append(("", ""))
    rows = benchmark(tmp_path).run(cases, variants, [0.5])

    assert len(rows) == 4
    assert done == [(c.trace.id, v.name) for c in cases[:1] for v in variants] + [
        ("", ""),
        *[(c.trace.id, v.name) for c in cases[1:] for v in variants],
    ]
    assert sorted(references) == sorted(c.trace.id for c in cases)
    kept = json.loads((tmp_path / "results.json").read_text())
    assert [(row["trace"], row["policy"]) for row in kept] == [
        (c.trace.id, v.name) for c in cases for v in variants
    ]


def test_progress_ends_at_the_total_and_a_second_run_has_none(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    variants = [parse_variant("window")]

    benchmark(tmp_path).run([case(4)], variants, [0.5], lambda *at: seen.append(at))
    num_seen = len(seen)
    first = benchmark(tmp_path).run([case(4)], variants, [0.5], lambda *at: seen.append(at))

    assert seen[-1] == (2 * case(4).num_tokens, 2 * case(4).num_tokens)
    assert len(seen) == num_seen
    again = benchmark(tmp_path, is_redone=True).run([case(4)], variants, [0.5])
    assert again[0].kl == first[0].kl


def test_missing_tags_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="takes its regions from classifier"):
        benchmark(tmp_path).run([case(4)], [parse_variant("memdecay@classifier")], [0.5])
    with pytest.raises(ConfigError, match="takes its regions from labels"):
        benchmark(tmp_path).run([case(4)], [parse_variant("memdecay@gold")], [0.5])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["learned", "learned+no-foresight"])
def test_learned_without_a_head_is_refused_before_any_work(tmp_path: Path, name: str) -> None:
    head = tiny_head(2 * 2 * 2) if "+" in name else None
    contestants = Contestants(language_model(), SMALL, foresight=head)
    places = Places(tmp_path, tmp_path / "references")
    with pytest.raises(ConfigError, match="make one with `memdecay foresee`"):
        QualityBenchmark(contestants, places).run([case(4)], [parse_variant(name)], [0.5])
    assert not list(tmp_path.iterdir())


def test_of_the_baselines_only_learned_is_given_the_head() -> None:
    contestants = Contestants(language_model(), SMALL, foresight=tiny_head(2 * 2 * 2))

    def has_head(name: str) -> bool:
        return contestants.cache_config(parse_variant(name), 0.5, 1000).foresight is not None

    assert [name for name in BASELINES if has_head(name)] == ["learned"]
    assert has_head("memdecay")
    assert not any(map(has_head, HEADWISE))


def test_the_best_baseline_is_whichever_only_evicts_with_the_least_divergence(
    rows: list[QualityRow],
) -> None:
    def with_kl(kls: dict[str, float]) -> ResultTable:
        found = [replace(find(rows, name, 0.2), kl=kl) for name, kl in kls.items()]
        return ResultTable(found, [parse_variant(name) for name in kls])

    kls = {"tova": 0.3, "learned": 0.2, "region": 0.1, "memdecay": 0.01}
    assert with_kl(kls).best_baseline(0.2) == "learned"
    assert with_kl(kls).ratio("memdecay", "learned", 0.2).value == pytest.approx(0.05)
    assert with_kl(kls | {"tova": 0.19}).best_baseline(0.2) == "tova"


def test_budget_without_room_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="longer traces or a larger budget"):
        benchmark(tmp_path).run([case(4)], [parse_variant("window")], [0.5, 0.01])
    assert not list(tmp_path.iterdir())
