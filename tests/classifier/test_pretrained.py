from pathlib import Path

import pytest

from memdecay.classifier import pretrained
from memdecay.classifier.artifact import CARD_FILE, load_artifact
from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.pretrained import classifier_folder, pretrained_folder


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an empty classifier where the packaged ones are looked for."""
    folder = tmp_path / "smollm2"
    folder.mkdir()
    (folder / CARD_FILE).write_text("{}")
    monkeypatch.setattr(pretrained, "files", lambda _: tmp_path)
    return folder


def test_default_stands_for_the_packaged_classifier_of_the_model(packaged: Path) -> None:
    assert classifier_folder(Path("default"), "smollm2") == packaged


def test_a_folder_stands_for_itself(packaged: Path, tmp_path: Path) -> None:
    assert packaged.is_dir()
    for folder in (tmp_path / "mine", tmp_path / "default", Path("runs/default")):
        assert classifier_folder(folder, "smollm2") == folder
        assert classifier_folder(folder, "another/model") == folder


@pytest.mark.usefixtures("packaged")
def test_other_models_have_no_packaged_classifier() -> None:
    assert pretrained_folder("another/model") is None
    with pytest.raises(ArtifactError, match="no classifier for another/model, only for 'smollm2'"):
        classifier_folder(Path("default"), "another/model")


def test_a_folder_without_its_card_is_no_classifier(packaged: Path) -> None:
    (packaged / CARD_FILE).unlink()
    assert pretrained_folder("smollm2") is None


def test_the_packaged_classifier_is_whole_small_and_tells_what_it_was_trained_on() -> None:
    folder = pretrained_folder("smollm2")
    assert folder is not None
    artifact = load_artifact(folder)
    artifact.open_session()
    card = artifact.card
    assert card.llm_name == "smollm2"
    assert card.training["recorded_traces"] == 0
    assert "It has seen no recorded run" in (folder / "README.md").read_text(encoding="utf-8")
    assert set(card.metrics["baselines"]) == {"position and role only", "rules"}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
