"""Classifier folders with random weights, for tests of what reads them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from memdecay.classifier.artifact import ClassifierArtifact, load_artifact, save_artifact
from memdecay.classifier.card import ClassifierCard
from memdecay.classifier.export import TaggingInputs
from memdecay.classifier.features import NUM_POSITION_FEATURES, FeatureLayout
from memdecay.classifier.graph import TaggingGraph
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import RegionTable

LAYER = 1
HIDDEN_SIZE = 32
TEMPERATURE = 0.5


def random_graph(*, context_tokens: int = 3, radius: int = 2) -> TaggingGraph:
    """Return a classifier of seeded random weights whose regions differ from token to token."""
    network = NetworkConfig(
        hidden_size=HIDDEN_SIZE,
        num_position_features=NUM_POSITION_FEATURES,
        projection_size=8,
        mlp_size=16,
        context_tokens=context_tokens,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        graph = TaggingGraph(network.build(), RegionTable(), PropagationConfig(radius), TEMPERATURE)
    with torch.no_grad():
        for layer in graph.network.mlp:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(3)
                layer.bias.zero_()
    return graph


def random_artifact(folder: Path, *, fingerprint: str = "0" * 16) -> ClassifierArtifact:
    """Write a `random_graph` into a classifier folder and load it again."""
    graph = random_graph()
    card = ClassifierCard(
        llm_name="tiny",
        llm_fingerprint=fingerprint,
        feature_layout=FeatureLayout(LAYER, HIDDEN_SIZE),
        network=graph.network.config,
        region_table=RegionTable(),
        propagation=graph.propagation,
        temperature=TEMPERATURE,
    )
    save_artifact(folder, graph, card, [random_inputs(2, 9)])
    return load_artifact(folder)


def random_inputs(batch: int, seq_len: int, seed: int = 0) -> TaggingInputs:
    """Return inputs for these classifiers, with padding on the left of the last row."""
    generator = torch.Generator().manual_seed(seed)
    hidden_states = torch.randn(batch, seq_len, HIDDEN_SIZE, generator=generator)
    # Around zero: a mean that all tokens share would give most of them one region.
    features = torch.rand(batch, seq_len, NUM_POSITION_FEATURES, generator=generator) - 0.5
    token_mask = torch.ones(batch, seq_len, dtype=torch.bool)
    token_mask[-1:, : seq_len // 4] = False
    return hidden_states, features, token_mask
