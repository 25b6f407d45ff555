import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import REGION_LABELS
from memdecay.data.generator import generate_traces
from memdecay.data.labelling.agreement import SECOND_FIELD
from memdecay.data.trace import Trace
from memdecay.training.baselines import POSITION, RULES
from memdecay.training.config import DeviceConfig, NetworkSizes, TrainingConfig
from memdecay.training.cross_validation import (
    ALONE,
    CEILING,
    CLASSIFIER,
    CrossValidation,
    CrossValidationConfig,
    cross_validate,
    read_temperature,
)
from memdecay.training.cross_validation import run as run_module
from tests.tiny import tiny_language_model

CONFIG = CrossValidationConfig(
    num_folds=2,
    training=TrainingConfig(
        max_epochs=1,
        network=NetworkSizes(projection_size=8, mlp_size=16),
        device=DeviceConfig("cpu", "1"),
    ),
)


def labelled_twice(trace: Trace) -> Trace:
    """Return the trace with its own labels as the second annotator's."""
    spans = [
        {"message": s.message, "start": s.start, "end": s.end, "region": s.region.label}
        for s in trace.spans
    ]
    return dataclasses.replace(trace, extra=(*trace.extra, (SECOND_FIELD, spans)))


def some_traces() -> list[Trace]:
    short = [trace for trace in generate_traces(40, seed=5) if trace.num_characters < 2500][:7]
    return [labelled_twice(short[0]), *short[1:]]


def run(folder: Path) -> CrossValidation:
    return cross_validate(some_traces(), tiny_language_model(), folder, folder / "store", CONFIG)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cross-validation")


@pytest.fixture(scope="module")
def result(folder: Path) -> CrossValidation:
    return run(folder)


def test_taggers_stand_side_by_side_on_the_same_tokens(result: CrossValidation) -> None:
    assert list(result.taggers) == [POSITION, RULES, ALONE, CLASSIFIER, CEILING]
    tokens = {result.taggers[name].metrics.tokens for name in (POSITION, RULES, ALONE, CLASSIFIER)}
    assert tokens == {sum(fold.tokens for fold in result.folds)}
    assert result.taggers[CLASSIFIER].num_traces == 7


def test_an_annotator_who_agrees_is_a_ceiling_of_one(result: CrossValidation) -> None:
    ceiling = result.taggers[CEILING]
    assert ceiling.metrics.macro_f1 == 1.0
    assert ceiling.num_traces == 1


def test_intervals_hold_their_figures(result: CrossValidation) -> None:
    for figures in result.taggers.values():
        estimate = figures.macro_f1
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= figures.metrics.macro_f1 <= estimate.high


def test_a_source_has_the_figures_of_its_own_tokens(result: CrossValidation) -> None:
    tokens = sum(row[CLASSIFIER].tokens for row in result.by_source.values())
    assert tokens == result.taggers[CLASSIFIER].metrics.tokens
    assert set(result.by_source) == {trace.source for trace in some_traces()}


def test_files_hold_the_figures(result: CrossValidation, folder: Path) -> None:
    data = json.loads((folder / "results.json").read_text())
    assert data["taggers"][CLASSIFIER]["macro_f1"] == result.taggers[CLASSIFIER].metrics.macro_f1
    assert set(data["ece"]) == {"none", "validation traces", "other held-out sources"}
    table = (folder / "results.md").read_text()
    for word in (*REGION_LABELS, *result.taggers, *result.by_source):
        assert word in table


def test_a_killed_run_goes_on_after_its_last_fold(
    result: CrossValidation, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = sorted(folder.glob("folds/*/predictions.npz"))[1]
    lost.unlink()
    calls = []
    original = run_module.train_network

    def counted(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(run_module, "train_network", counted)
    again = run(folder)
    assert len(calls) == 1
    assert lost.is_file()
    for name, figures in result.taggers.items():
        np.testing.assert_allclose(again.taggers[name].metrics.macro_f1, figures.metrics.macro_f1)


def test_progress_counts_the_epochs_of_all_folds(folder: Path, result: CrossValidation) -> None:
    reports: list[tuple[int, int]] = []
    cross_validate(
        some_traces(),
        tiny_language_model(),
        folder,
        folder / "store",
        CONFIG,
        training_progress=lambda done, total: reports.append((done, total)),
    )
    assert reports[-1] == (2, 2)
    assert len(result.folds) == 2


def test_temperature_is_read_from_the_figures(folder: Path, result: CrossValidation) -> None:
    assert read_temperature(folder / "results.json") == pytest.approx(result.temperature)


@pytest.mark.parametrize("content", [None, "", "[1]", '{"a": 1}', '{"temperature": "warm"}'])
def test_figures_without_a_temperature_are_refused(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"results\.json holds no temperature"):
        read_temperature(path)
