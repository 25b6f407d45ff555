"""Put other scores and decays into an exported classifier, whose network stays as it is.

``python -m memdecay.classifier.rescoring FOLDER`` puts the default ones in.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch

from memdecay.classifier.artifact import load_artifact, save_artifact
from memdecay.classifier.export import ParityReport, example_inputs
from memdecay.classifier.graph import TaggingGraph
from memdecay.classifier.regions import RegionTable

_SHAPES = ((1, 0), (1, 1), (3, 33), (1, 256))


def rescore(folder: Path, table: RegionTable) -> ParityReport:
    """Export a classifier again, in its own folder, with another table.

    Args:
        folder: The classifier.
        table: What its importance and its decays are to be.

    Returns:
        How far the export is from torch, on random inputs.

    Raises:
        ArtifactError: The folder holds no classifier, or torch and ONNX Runtime disagree.
        StorageError: A file could not be written.
    """
    artifact = load_artifact(folder)
    card = replace(artifact.card, region_table=table)
    network = artifact.load_graph().network
    graph = TaggingGraph(network, table, card.propagation, card.temperature).eval()
    generator = torch.Generator().manual_seed(0)
    samples = [example_inputs(graph, *shape, generator) for shape in _SHAPES]
    return save_artifact(folder, graph, card, samples)


if __name__ == "__main__":
    rescore(Path(sys.argv[1]), RegionTable())
