"""Snapshots hold what a session knew, and judging one is what a faded cache would have done."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.errors import BudgetError, ModelError
from memdecay.classifier.features import role_code
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import Region, RegionDecay, RegionTable
from memdecay.classifier.rescoring import rescore
from memdecay.classifier.tokenization import special_ids
from memdecay.runtime.bench.quality.case import QualityCase, QualityTrace, prepare_case
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.foresight.norms import log_norms
from memdecay.runtime.rule_tagger import RuleTagger
from memdecay.runtime.tuning.capture import choose_moments, take_snapshot
from memdecay.runtime.tuning.evaluate import SnapshotJudge
from memdecay.runtime.tuning.evidence import read_evidence
from memdecay.runtime.tuning.gather import MomentsConfig, Tuning, tags_identity
from memdecay.runtime.tuning.parameters import without_regions
from memdecay.runtime.tuning.snapshot import (
    Snapshot,
    load_snapshot,
    read_num_past,
    save_snapshot,
)
from memdecay.runtime.tuning.store import TuningStore
from tests.runtime.artifacts import random_artifact
from tests.tiny import tiny_language_model

NEXT = 48
BUDGET = 0.6


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_language_model(max_position_embeddings=4096, initializer_range=0.3)


@pytest.fixture(scope="module")
def case(llm: LanguageModel) -> QualityCase:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You answer questions. " * 4}]
    for number in range(6):
        messages += [
            {"role": "user", "content": f"What is in file {number}? " * 3},
            {"role": "assistant", "content": f"File {number} holds the results of the call. " * 3},
        ]
    return prepare_case(QualityTrace("t", "s", tuple(messages)), llm.tokenizer, QualityConfig())


@pytest.fixture(scope="module")
def snapshot(llm: LanguageModel, case: QualityCase) -> Snapshot:
    (moment,) = choose_moments(case, 1, NEXT, MomentsConfig(budget=BUDGET).min_past)
    return take_snapshot(llm, case, RuleTagger(), moment)


def test_a_moment_stands_before_what_the_assistant_writes(case: QualityCase) -> None:
    for moment in choose_moments(case, 3, NEXT, 100):
        assert 100 <= moment.start < moment.stop <= case.num_tokens
        assert moment.stop - moment.start <= NEXT
        roles = case.tokens.role[moment.start : moment.stop]
        assert (roles == role_code("assistant")).mean() > 0.3
    assert not choose_moments(case, 1, NEXT, case.num_tokens - 2)


def test_a_snapshot_holds_the_whole_past(
    llm: LanguageModel, case: QualityCase, snapshot: Snapshot
) -> None:
    past = snapshot.num_past
    assert snapshot.keys.shape[0] == llm.model.config.num_hidden_layers
    assert snapshot.input_ids[:past].tolist() == case.tokens.input_ids[:past].tolist()
    torch.testing.assert_close(snapshot.region_probs.sum(dim=1), torch.ones(past))
    assert snapshot.region_probs.argmax(dim=1).unique().numel() > 1
    assert not snapshot.attention.isnan().any()
    assert len(snapshot.log_probs) == len(snapshot.scored)

    with torch.inference_mode():
        logits = llm.model(snapshot.input_ids.unsqueeze(0)).logits[0, past:]
    expected = logits[snapshot.scored].float().log_softmax(dim=-1)
    torch.testing.assert_close(snapshot.log_probs, expected, atol=1e-3, rtol=1e-3)


def test_a_budget_for_everything_costs_next_to_nothing(
    llm: LanguageModel, snapshot: Snapshot
) -> None:
    tight = SnapshotJudge(llm, BUDGET).judge(snapshot, None)
    ample = SnapshotJudge(llm, 1.0).judge(snapshot, None)

    assert 0 <= ample < 0.2 * tight
    assert tight > 1e-4


def test_weights_change_the_divergence_and_settings_without_regions_do_not(
    llm: LanguageModel, snapshot: Snapshot
) -> None:
    judge = SnapshotJudge(llm, BUDGET)
    none = judge.judge(snapshot, None)
    weights = tuple(8.0 if region is Region.SYSTEM_INSTRUCTION else 0.0 for region in Region)

    yielding = without_regions(RegionSettings())

    assert judge.judge(snapshot, yielding) == pytest.approx(none, rel=1e-6)
    assert judge.judge(snapshot, RegionSettings(weights=weights)) != pytest.approx(none, rel=1e-3)
    assert judge.judge(snapshot, RegionSettings(template_weight=-9.0)) != pytest.approx(
        judge.judge(snapshot, RegionSettings()), rel=1e-3
    )


def test_snapshots_come_back_from_disk(snapshot: Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "one.safetensors"
    save_snapshot(path, snapshot)
    found = load_snapshot(path)

    assert found is not None
    assert found.trace == snapshot.trace
    assert torch.equal(found.keys, snapshot.keys)
    assert torch.equal(found.log_probs, snapshot.log_probs)
    assert read_num_past(path) == snapshot.num_past
    assert load_snapshot(tmp_path / "none.safetensors") is None
    assert read_num_past(tmp_path / "none.safetensors") is None
    path.write_bytes(path.read_bytes()[:100])
    assert load_snapshot(path) is None


def tuning_in(folder: Path, llm: LanguageModel) -> Tuning:
    config = MomentsConfig(1, NEXT, BUDGET)
    return Tuning(llm, TuningStore(folder), config, lambda _: RuleTagger(), "rules")


def test_nothing_is_computed_twice(
    llm: LanguageModel, case: QualityCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, int]] = []
    ((key, trace),) = tuning_in(tmp_path, llm).gather([case], lambda *call: calls.append(call))
    kl = tuning_in(tmp_path, llm).judge(key, RegionSettings())

    assert trace == "t"
    assert calls[-1][0] == calls[-1][1]
    monkeypatch.setattr(SnapshotJudge, "judge", None)
    again = tuning_in(tmp_path, llm)
    monkeypatch.setattr("memdecay.runtime.tuning.gather.take_snapshot", None)
    assert again.gather([case]) == [(key, "t")]
    assert again.judge(key, RegionSettings()) == kl
    with pytest.raises(ValueError, match="the snapshot nokey is missing"):
        again.judge("nokey", None)


def test_the_judged_table_scores_the_tokens(llm: LanguageModel, snapshot: Snapshot) -> None:
    judge = SnapshotJudge(llm, BUDGET)
    table = RegionTable(system_instruction=RegionDecay(500.0, 0.0))
    other = judge.judge(snapshot, RegionSettings(table=table))
    assert other != pytest.approx(judge.judge(snapshot, RegionSettings()), rel=1e-3)


def test_evidence_is_the_attention_that_came_less_what_was_expected(
    llm: LanguageModel, snapshot: Snapshot
) -> None:
    past, guards = snapshot.num_past, CacheConfig(snapshot.num_past)
    chosen = slice(guards.num_sinks, past - guards.num_recent)
    evidence = read_evidence(llm, snapshot, None)

    model = llm.model
    implementation = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        output = model(snapshot.input_ids[None], output_attentions=True)
    model.set_attn_implementation(implementation)
    later = torch.stack([each[0, :, past:, :past] for each in output.attentions]).double()
    use = later.square().mean(dim=(0, 1, 2)).sqrt().log()
    relative = snapshot.attention / snapshot.attention.mean()
    padded = torch.nn.functional.pad(relative, (2, 2))
    counts = torch.nn.functional.pad(torch.ones_like(relative), (2, 2))
    known = (padded.unfold(0, 5, 1).sum(1) / counts.unfold(0, 5, 1).sum(1) + 0.05).log()
    left = (use - known)[chosen]

    expected = (left - left.mean()).float()
    # The snapshot's keys and values are rounded to 16 bits.
    torch.testing.assert_close(torch.from_numpy(evidence.unexplained), expected, atol=1e-2, rtol=0)
    assert expected.std() > 0.1
    assert evidence.ages.tolist() == list(range(past - 1, -1, -1))[chosen]
    torch.testing.assert_close(
        torch.from_numpy(evidence.region_probs), snapshot.region_probs[chosen]
    )
    ids = snapshot.input_ids[:past][chosen].tolist()
    assert evidence.is_template.tolist() == [id_ in special_ids(llm.tokenizer) for id_ in ids]
    assert 0 < evidence.is_template.sum() < len(evidence)


def test_a_foresight_head_takes_what_it_foresees_off(
    llm: LanguageModel, snapshot: Snapshot
) -> None:
    num_norms = 2 * snapshot.keys.shape[0] * snapshot.keys.shape[1]
    head = ForesightHead("m", (0.0,) * num_norms, (1.0,) * num_norms, (0.0,) * num_norms, 0.0)
    no_attention = read_evidence(llm, snapshot, head)
    bare = read_evidence(llm, snapshot, None)
    # A head that weighs nothing expects the same of all tokens.
    assert no_attention.unexplained.std() != pytest.approx(bare.unexplained.std(), rel=1e-2)
    seeing = replace(head, weights=(0.1,) * num_norms, attention_weight=1.0)
    layers = [
        (keys[None].float(), values[None].float())
        for keys, values in zip(snapshot.keys, snapshot.values, strict=True)
    ]
    foreseen = seeing.foresee(log_norms(layers)[0])[4 : 4 + len(bare)].numpy()
    rest = bare.unexplained - foreseen
    np.testing.assert_allclose(
        read_evidence(llm, snapshot, seeing).unexplained, rest - rest.mean(), atol=1e-4
    )


def test_evidence_is_read_once(
    llm: LanguageModel, case: QualityCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, int]] = []
    ((key, _),) = tuning_in(tmp_path, llm).gather([case])
    evidence = tuning_in(tmp_path, llm).evidence([key], lambda *call: calls.append(call))
    assert calls == [(1, 1)]
    monkeypatch.setattr("memdecay.runtime.tuning.gather.read_evidence", None)
    again = tuning_in(tmp_path, llm).evidence([key])
    np.testing.assert_array_equal(again[key].unexplained, evidence[key].unexplained)
    with pytest.raises(ValueError, match="the snapshot nokey is missing"):
        tuning_in(tmp_path, llm).evidence(["nokey"])


def test_snapshots_outlive_other_scores_and_notes_but_no_other_classifier(tmp_path: Path) -> None:
    card = random_artifact(tmp_path).card
    rescore(tmp_path, RegionTable(key_decision=RegionDecay(31.0, 0.002)))
    rescored = load_artifact(tmp_path).card
    assert rescored.files != card.files
    noted = replace(rescored, metrics={"accuracy": 1.0}, versions={}, training={"seed": 3})
    assert tags_identity(noted) == tags_identity(card)
    assert tags_identity(replace(card, temperature=3.0)) != tags_identity(card)
    other = {name: replace(digest, sha256="0" * 64) for name, digest in card.files.items()}
    assert tags_identity(replace(card, files=other)) != tags_identity(card)


def test_damaged_judgements_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "judgements.json").write_text("[1")
    store = TuningStore(tmp_path)
    assert store.judgement("q") is None
    store.save_judgement("q", 0.5)
    assert TuningStore(tmp_path).judgement("q") == 0.5


def test_sliding_windows_are_refused(case: QualityCase) -> None:
    sliding = tiny_language_model()
    sliding.model.config.layer_types = ["sliding_attention"] + ["full_attention"] * 3
    sliding.model.config.sliding_window = 16
    (moment,) = choose_moments(case, 1, NEXT, 100)
    with pytest.raises(ModelError, match="can't be tuned"):
        take_snapshot(sliding, case, RuleTagger(), moment)


def test_a_budget_without_room_is_refused(llm: LanguageModel, snapshot: Snapshot) -> None:
    with pytest.raises(BudgetError, match="the protected tokens and a chunk"):
        SnapshotJudge(llm, 0.1).judge(snapshot, None)


@pytest.mark.parametrize(
    "options", [{"per_trace": 0}, {"next_tokens": 1}, {"budget": 0.0}, {"budget": math.inf}]
)
def test_moments_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        MomentsConfig(**options)
