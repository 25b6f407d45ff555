"""Logits of a trained network over held-out windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from memdecay.classifier.network import RegionNetwork
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.chunks import UNLABELLED, WindowSource, collate


def without_rules(network: RegionNetwork) -> RegionNetwork:
    """Return a copy in eval mode that does not add the rules' scores: what it learned alone."""
    copy = dataclasses.replace(network.config, rules_weight=0.0).build()
    copy.load_state_dict(network.state_dict())
    return copy.eval()


def predict_logits(
    network: RegionNetwork, source: WindowSource, indices: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Run a network over whole windows.

    Args:
        network: The network; its mode is put back afterwards.
        source: The windows.
        indices: Which of them.

    Returns:
        Logits ``(tokens, num_regions)``, float32, and labels ``(tokens,)``, int64, of the labelled
        tokens in order.
    """
    logits, labels = [torch.zeros(0, NUM_REGIONS)], [torch.zeros(0, dtype=torch.int64)]
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    try:
        for index in indices:
            batch = collate([source.window(index)])
            labelled = batch.labels != UNLABELLED
            with torch.inference_mode():
                output = network(*(value.to(device) for value in batch[:3])).cpu()
            logits.append(output[labelled].clone())
            labels.append(batch.labels[labelled])
    finally:
        network.train(was_training)
    return torch.cat(logits), torch.cat(labels)
