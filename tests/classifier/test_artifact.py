import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from memdecay.classifier import artifact as artifact_module
from memdecay.classifier.artifact import (
    CARD_FILE,
    CHECKPOINT_FILE,
    MODEL_CARD_FILE,
    ONNX_FILE,
    load_artifact,
    save_artifact,
)
from memdecay.classifier.card import FORMAT_VERSION, ClassifierCard
from memdecay.classifier.errors import ArtifactError, StorageError
from memdecay.classifier.export import ParityReport, example_inputs, run_session
from memdecay.classifier.features import NUM_POSITION_FEATURES, FeatureLayout
from memdecay.classifier.graph import TaggingGraph
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import RegionTable

HIDDEN_SIZE = 16


def make_graph() -> TaggingGraph:
    torch.manual_seed(0)
    network = NetworkConfig(HIDDEN_SIZE, NUM_POSITION_FEATURES, context_tokens=2).build()
    return TaggingGraph(network, RegionTable(), PropagationConfig(), 1.3).eval()


def make_card(graph: TaggingGraph) -> ClassifierCard:
    return ClassifierCard(
        llm_name="tiny",
        llm_fingerprint="f00d",
        feature_layout=FeatureLayout(layer=3, hidden_size=HIDDEN_SIZE),
        network=graph.network.config,
        region_table=RegionTable(),
        propagation=PropagationConfig(),
        temperature=1.3,
        training={"seed": 0},
        trained_on=("a", "b"),
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifact") / "classifier"
    graph = make_graph()
    save_artifact(folder, graph, make_card(graph), [])
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def edit_card(folder: Path, change: Callable[[dict[str, object]], None]) -> None:
    path = folder / CARD_FILE
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


def test_card_says_all_that_is_promised(saved: Path) -> None:
    card = json.loads((saved / CARD_FILE).read_text(encoding="utf-8"))
    assert {
        "format_version",
        "regions",
        "layer",
        "hidden_size",
        "llm",
        "feature_layout",
        "temperature",
        "metrics",
        "versions",
    } <= set(card)
    assert card["layer"] == 3
    assert {"torch", "transformers", "onnxruntime", "memdecay"} <= set(card["versions"])


def test_loaded_card_equals_the_saved_one(saved: Path) -> None:
    loaded = load_artifact(saved).card
    expected = make_card(make_graph())
    assert loaded.feature_layout == expected.feature_layout
    assert loaded.network == expected.network
    assert loaded.region_table == expected.region_table
    assert loaded.propagation == expected.propagation
    assert loaded.trained_on == expected.trained_on
    assert ClassifierCard.from_json(loaded.to_json(), saved) == loaded


def test_model_card_names_the_llm_and_the_regions(saved: Path) -> None:
    text = (saved / MODEL_CARD_FILE).read_text(encoding="utf-8")
    assert "tiny" in text
    assert "never fades" in text
    assert "No held-out traces were measured." in text


def test_graph_from_the_checkpoint_equals_the_exported_one(saved: Path) -> None:
    loaded = load_artifact(saved)
    graph = loaded.load_graph()
    inputs = example_inputs(graph, 2, 21, torch.Generator().manual_seed(4))
    with torch.inference_mode():
        expected, _ = graph(*inputs)
    probs, _ = run_session(loaded.open_session(), inputs)
    torch.testing.assert_close(torch.from_numpy(probs), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", [ONNX_FILE, CHECKPOINT_FILE])
def test_truncated_file_is_refused(copy: Path, name: str) -> None:
    path = copy / name
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ArtifactError, match=rf"{name} has \d+ bytes, expected \d+: it was cut off"):
        load_artifact(copy)


@pytest.mark.parametrize("name", [ONNX_FILE, CHECKPOINT_FILE])
def test_changed_byte_is_found(copy: Path, name: str) -> None:
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(ArtifactError, match="does not match the SHA-256"):
        load_artifact(copy)


@pytest.mark.parametrize("name", [ONNX_FILE, CHECKPOINT_FILE])
def test_missing_file_is_refused(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name} is missing"):
        load_artifact(copy)


def test_folder_without_a_card_is_unfinished(copy: Path) -> None:
    (copy / CARD_FILE).unlink()
    with pytest.raises(ArtifactError, match="no finished classifier"):
        load_artifact(copy)


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="is not a folder"):
        load_artifact(tmp_path / "nowhere")


def test_truncated_card_is_refused_with_its_line(copy: Path) -> None:
    text = (copy / CARD_FILE).read_text(encoding="utf-8")
    (copy / CARD_FILE).write_text(text[: len(text) // 2], encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"is not JSON \(line \d+"):
        load_artifact(copy)


def test_card_of_a_newer_format_is_refused(copy: Path) -> None:
    edit_card(copy, lambda data: data.update(format_version=FORMAT_VERSION + 1))
    with pytest.raises(ArtifactError, match="update memdecay"):
        load_artifact(copy)


@pytest.mark.parametrize("version", [0, "one", None])
def test_senseless_format_version_is_refused(copy: Path, version: object) -> None:
    edit_card(copy, lambda data: data.update(format_version=version))
    with pytest.raises(ArtifactError, match="format_version"):
        load_artifact(copy)


def test_json_that_is_no_card_is_refused(copy: Path) -> None:
    (copy / CARD_FILE).write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(ArtifactError, match="no classifier card"):
        load_artifact(copy)


def test_other_regions_are_refused(copy: Path) -> None:
    edit_card(copy, lambda data: data.update(regions=["a", "b"]))
    with pytest.raises(ArtifactError, match="lists the regions"):
        load_artifact(copy)


@pytest.mark.parametrize(
    "key",
    ["llm", "feature_layout", "network", "region_table", "propagation", "temperature", "files"],
)
def test_missing_and_senseless_fields_are_named(copy: Path, key: str) -> None:
    edit_card(copy, lambda data: data.update({key: "nonsense"}))
    with pytest.raises(ArtifactError, match=f"'{key}' that does not fit"):
        load_artifact(copy)
    edit_card(copy, lambda data: data.pop(key))
    with pytest.raises(ArtifactError, match=f"no field '{key}'"):
        load_artifact(copy)


def test_file_without_a_digest_is_refused(copy: Path) -> None:
    edit_card(copy, lambda data: data["files"].pop(ONNX_FILE))  # type: ignore[attr-defined]
    with pytest.raises(ArtifactError, match=r"lists no digest of classifier\.onnx"):
        load_artifact(copy)


def test_network_of_another_card_is_refused(copy: Path) -> None:
    edit_card(copy, lambda data: data["network"].update(mlp_size=7))  # type: ignore[attr-defined]
    with pytest.raises(ArtifactError, match="does not hold the network of its card"):
        load_artifact(copy).load_graph()


def test_llm_with_another_hidden_size_is_refused(saved: Path) -> None:
    with pytest.raises(ArtifactError, match=r"hidden size 16, but big has hidden size 32"):
        load_artifact(saved).check_llm("f00d", 32, 4, "big")


def test_llm_with_other_weights_is_refused(saved: Path) -> None:
    with pytest.raises(ArtifactError, match=r"other is another model \(fingerprint beef\)"):
        load_artifact(saved).check_llm("beef", HIDDEN_SIZE, 4, "other")


def test_llm_it_was_trained_on_is_accepted(saved: Path) -> None:
    load_artifact(saved).check_llm("f00d", HIDDEN_SIZE, 4, "tiny")


def test_export_that_disagrees_leaves_no_card(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        artifact_module,
        "export_onnx",
        lambda _, path: path.write_bytes((saved / ONNX_FILE).read_bytes()),
    )
    monkeypatch.setattr(artifact_module, "check_parity", lambda *_: ParityReport(0.5, 0.0, 10))
    graph = make_graph()
    with pytest.raises(ArtifactError, match=r"differs from torch by 0\.5"):
        save_artifact(tmp_path, graph, make_card(graph), [])
    assert not (tmp_path / CARD_FILE).exists()


def test_old_leftovers_go_and_an_export_under_way_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, fresh = tmp_path / ".export-old", tmp_path / ".export-fresh"
    old.mkdir()
    fresh.mkdir()
    os.utime(old, (0, 0))
    monkeypatch.setattr(artifact_module, "_write_files", lambda *_: ParityReport(0.0, 0.0, 0))
    monkeypatch.setattr(artifact_module, "_put_in_place", lambda *_: None)
    graph = make_graph()
    save_artifact(tmp_path, graph, make_card(graph), [])
    assert not old.exists()
    assert fresh.exists()


@pytest.mark.parametrize("limit", [2_000, 40_000])
def test_full_disk_leaves_an_older_classifier_as_it_was(copy: Path, limit: int) -> None:
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    graph = make_graph()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
    try:
        with pytest.raises(StorageError, match="copy could not be written"):
            save_artifact(copy, graph, make_card(graph), [])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
