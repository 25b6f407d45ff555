"""A card that was edited by hand ends in one sentence, whatever stands in it."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdecay.classifier.artifact import CARD_FILE, load_artifact, record_evaluation
from memdecay.classifier.card import ClassifierCard
from memdecay.classifier.errors import ArtifactError, MemdecayError
from memdecay.classifier.export import example_inputs
from memdecay.runtime.tagger import RegionTagger
from tests.classifier.test_artifact import HIDDEN_SIZE, edit_card, make_card, make_graph, saved

__all__ = ["saved"]
CARD = json.loads(make_card(make_graph()).to_json())


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(min(len(value), 2))
        for key in keys:
            yield from places(value[key], (*path, key))


ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, 10**30, 10**400, float("nan"), float("inf"), "", "12", [], {}, [[]]]
)


@given(path=st.sampled_from(list(places(CARD))), value=ODD, is_removed=st.booleans())
@settings(max_examples=300, deadline=None, database=None)
def test_any_edit_is_read_or_refused(path: tuple[Any, ...], value: Any, is_removed: bool) -> None:
    data = copy.deepcopy(CARD)
    place = data
    for key in path[:-1]:
        place = place[key]
    if is_removed:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    try:
        card = ClassifierCard.from_json(json.dumps(data), Path("card.json"))
    except ArtifactError:
        return
    assert ClassifierCard.from_json(card.to_json(), Path("card.json")) == card


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"format_version": ' + "1" * 5000 + "}", "\ufeff{}"]
)
def test_hostile_json_is_refused(text: str) -> None:
    with pytest.raises(ArtifactError, match="is not JSON"):
        ClassifierCard.from_json(text, Path("card.json"))


@pytest.mark.parametrize("key", ["layer", "hidden_size"])
def test_places_that_contradict_each_other_are_named(saved: Path, tmp_path: Path, key: str) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "copy"))
    edit_card(folder, lambda data: data.update({key: 7}))
    with pytest.raises(ArtifactError, match=f"has {key} 7, but its feature_layout says"):
        load_artifact(folder)


def test_layer_that_the_llm_lacks_is_refused(saved: Path) -> None:
    with pytest.raises(ArtifactError, match="reads layer 3 of the model, but tiny has only the"):
        load_artifact(saved).check_llm("f00d", HIDDEN_SIZE, 3, "tiny")


def test_sizes_that_the_graph_does_not_have_are_refused(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "copy"))
    data = json.loads((folder / CARD_FILE).read_text())
    data["hidden_size"] = data["feature_layout"]["hidden_size"] = 8
    data["network"]["hidden_size"] = 8
    (folder / CARD_FILE).write_text(json.dumps(data))
    with pytest.raises(ArtifactError, match="reads 16 hidden and"):
        load_artifact(folder).open_session()


@given(
    edits=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    ("network", "projection_size"),
                    ("network", "context_tokens"),
                    ("network", "mlp_size"),
                    ("propagation", "radius"),
                    ("temperature",),
                ]
            ),
            st.sampled_from([1, 2, 7, 10**9, 10**30]),
        ),
        min_size=1,
        max_size=2,
    )
)
@settings(
    max_examples=15,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_sizes_that_fit_no_model_never_end_in_a_traceback(
    saved: Path, tmp_path: Path, edits: list[tuple[tuple[str, ...], int]]
) -> None:
    folder = tmp_path / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)

    def change(data: dict[str, Any]) -> None:
        for path, value in edits:
            place = data
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value

    edit_card(folder, change)
    inputs = example_inputs(make_graph(), 1, 9, torch.Generator().manual_seed(0))
    try:
        artifact = load_artifact(folder)
        RegionTagger(artifact, "cpu").tag(*inputs)
        artifact.load_graph()
    except MemdecayError:
        return


@pytest.mark.parametrize("metrics", [{"evaluations": 3}, {"macro_f1": "high"}, {"evaluations": []}])
def test_figures_that_are_none_are_refused(
    saved: Path, tmp_path: Path, metrics: dict[str, object]
) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "copy"))
    edit_card(folder, lambda data: data.update(metrics=metrics))
    with pytest.raises(ArtifactError, match="'metrics' that does not fit"):
        record_evaluation(load_artifact(folder), "gold.jsonl", {"tokens": 1})
