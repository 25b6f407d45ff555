"""A classifier with other scores says the same of regions and scores them anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from memdecay.classifier.artifact import CHECKPOINT_FILE, load_artifact
from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.pretrained import pretrained_folder
from memdecay.classifier.propagation import importance_of
from memdecay.classifier.regions import RegionDecay, RegionTable
from memdecay.classifier.rescoring import rescore
from memdecay.runtime.tagger import RegionTagger
from tests.runtime.artifacts import random_artifact, random_inputs

OTHER = RegionTable(key_decision=RegionDecay(31.0, 0.002))


def test_the_network_stays_and_importance_follows_the_table(tmp_path: Path) -> None:
    before = random_artifact(tmp_path)
    inputs = random_inputs(2, 40)
    tags = RegionTagger(before, "cpu").tag(*inputs)
    weights = (tmp_path / CHECKPOINT_FILE).read_bytes()

    parity = rescore(tmp_path, OTHER)

    after = load_artifact(tmp_path)
    again = RegionTagger(after, "cpu").tag(*inputs)
    assert parity.is_equal
    assert (tmp_path / CHECKPOINT_FILE).read_bytes() == weights
    assert after.card.region_table == OTHER
    unchanged = replace(after.card, region_table=before.card.region_table, files=before.card.files)
    assert unchanged == before.card
    torch.testing.assert_close(again.region_probs, tags.region_probs)
    expected = importance_of(tags.region_probs, inputs[2], OTHER, after.card.propagation)
    torch.testing.assert_close(again.importance, expected, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(again.importance, tags.importance)


def test_a_folder_without_a_classifier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError):
        rescore(tmp_path, OTHER)


def test_the_packaged_classifier_scores_by_the_default_table() -> None:
    folder = pretrained_folder("smollm2")
    assert folder is not None
    artifact = load_artifact(folder)
    assert artifact.card.region_table == RegionTable()
    card, generator = artifact.card, torch.Generator().manual_seed(0)
    hidden = torch.randn(1, 33, card.network.hidden_size, generator=generator)
    features = torch.rand(1, 33, card.network.num_position_features, generator=generator)
    tags = RegionTagger(artifact, "cpu").tag(hidden, features)
    real = torch.ones(1, 33, dtype=torch.bool)
    expected = importance_of(tags.region_probs, real, RegionTable(), card.propagation)
    torch.testing.assert_close(tags.importance, expected, atol=1e-3, rtol=1e-3)
