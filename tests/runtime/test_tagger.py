"""The tagger against the torch graph, and its choice of a device."""

from __future__ import annotations

import logging

import onnxruntime
import pytest
import torch
from torch.testing import assert_close

from memdecay.classifier.artifact import ClassifierArtifact
from memdecay.runtime.tagger import CPU_PROVIDER, CUDA_PROVIDER, RegionTagger
from tests.runtime.artifacts import random_inputs


@pytest.fixture(scope="module")
def tagger(artifact: ClassifierArtifact) -> RegionTagger:
    return RegionTagger(artifact, "cpu")


@pytest.mark.parametrize(("batch", "seq_len"), [(1, 1), (1, 40), (3, 17), (2, 300)])
def test_tags_are_those_of_the_torch_graph(tagger: RegionTagger, batch: int, seq_len: int) -> None:
    inputs = random_inputs(batch, seq_len)
    expected_probs, expected_importance = tagger.artifact.load_graph()(*inputs)
    tags = tagger.tag(*inputs)
    assert_close(tags.region_probs, expected_probs.detach(), atol=1e-4, rtol=1e-4)
    assert_close(tags.importance, expected_importance.detach(), atol=1e-4, rtol=1e-4)


def test_random_tags_differ_between_tokens(tagger: RegionTagger) -> None:
    tags = tagger.tag(*random_inputs(1, 200))
    assert tags.region_probs.argmax(dim=-1).unique().numel() >= 3


def test_no_mask_means_no_padding(tagger: RegionTagger) -> None:
    hidden_states, features, token_mask = random_inputs(2, 12)
    unmasked = tagger.tag(hidden_states, features)
    all_real = tagger.tag(hidden_states, features, torch.ones_like(token_mask))
    assert_close(unmasked.importance, all_real.importance, atol=0, rtol=0)


@pytest.mark.parametrize(("batch", "seq_len"), [(1, 0), (0, 5), (0, 0)])
def test_nothing_to_tag_gives_empty_tags(tagger: RegionTagger, batch: int, seq_len: int) -> None:
    hidden_states, features, token_mask = random_inputs(max(batch, 1), seq_len)
    tags = tagger.tag(hidden_states[:batch], features[:batch], token_mask[:batch])
    assert tags.region_probs.shape == (batch, seq_len, 5)
    assert tags.importance.shape == (batch, seq_len)


def test_strided_and_half_precision_inputs_are_read_rightly(tagger: RegionTagger) -> None:
    hidden_states, features, token_mask = random_inputs(2, 20)
    rounded = hidden_states.bfloat16()
    strided = rounded.transpose(0, 1).contiguous().transpose(0, 1)
    assert not strided.is_contiguous()
    tags = tagger.tag(strided, features.double(), token_mask)
    expected = tagger.tag(rounded.float(), features, token_mask)
    assert_close(tags.importance, expected.importance, atol=1e-6, rtol=1e-6)


def test_tags_do_not_share_memory_between_calls(tagger: RegionTagger) -> None:
    inputs = random_inputs(1, 8)
    first = tagger.tag(*inputs)
    before = first.importance.clone()
    tagger.tag(*(value.flip(1) for value in inputs))
    assert torch.equal(first.importance, before)


def test_receptive_field_and_layer_come_from_the_card(tagger: RegionTagger) -> None:
    assert tagger.receptive_field == 3 + 2
    assert tagger.layer == tagger.artifact.card.feature_layout.layer


@pytest.mark.parametrize("wrong", ["hidden_states", "position_features", "token_mask"])
def test_a_wrong_shape_is_refused(tagger: RegionTagger, wrong: str) -> None:
    inputs = dict(
        zip(
            ("hidden_states", "position_features", "token_mask"),
            random_inputs(2, 6),
            strict=True,
        )
    )
    inputs[wrong] = inputs[wrong][..., :-1]
    with pytest.raises(ValueError, match="must have the shape"):
        tagger.tag(**inputs)


def test_a_mask_without_a_batch_is_refused(tagger: RegionTagger) -> None:
    hidden_states, features, token_mask = random_inputs(1, 6)
    with pytest.raises(ValueError, match=r"token_mask must have the shape \(batch, seq_len\)"):
        tagger.tag(hidden_states, features, token_mask[0])


@pytest.mark.parametrize("device", ["gpu", "cuda:", "CPU", ""])
def test_an_unknown_device_is_refused(artifact: ClassifierArtifact, device: str) -> None:
    with pytest.raises(ValueError, match="auto, cpu, cuda or cuda:N"):
        RegionTagger(artifact, device)


def test_missing_cuda_is_told_once_when_asked_for(
    artifact: ClassifierArtifact,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with caplog.at_level(logging.WARNING):
        tagger = RegionTagger(artifact, "cuda")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "torch finds no CUDA device" in caplog.text
    assert tagger.device == torch.device("cpu")
    tagger.tag(*random_inputs(1, 4))
    assert len(caplog.records) == 1


def test_auto_takes_the_cpu_in_silence(
    artifact: ClassifierArtifact,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert RegionTagger(artifact).device == torch.device("cpu")
    assert not caplog.records


def test_a_cuda_provider_that_does_not_load_falls_back(
    artifact: ClassifierArtifact,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ONNX Runtime lists the provider, but opens the session without it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA_PROVIDER])
    open_session = ClassifierArtifact.open_session
    monkeypatch.setattr(
        ClassifierArtifact, "open_session", lambda self, _: open_session(self, [CPU_PROVIDER])
    )
    assert RegionTagger(artifact, "cuda").device == torch.device("cpu")
    assert "could not load its CUDA libraries" in caplog.text


@pytest.mark.cuda
@pytest.mark.skipif(
    not torch.cuda.is_available() or CUDA_PROVIDER not in onnxruntime.get_available_providers(),
    reason="needs CUDA in torch and in ONNX Runtime",
)
def test_tags_on_cuda_are_those_of_the_cpu(artifact: ClassifierArtifact) -> None:
    on_cuda, on_cpu = RegionTagger(artifact, "cuda"), RegionTagger(artifact, "cpu")
    inputs = random_inputs(3, 90)
    expected = on_cpu.tag(*inputs)
    tags = on_cuda.tag(*(value.cuda() for value in inputs))
    assert tags.region_probs.is_cuda
    assert_close(tags.region_probs.cpu(), expected.region_probs, atol=1e-4, rtol=1e-4)
    assert_close(tags.importance.cpu(), expected.importance, atol=1e-3, rtol=1e-3)
