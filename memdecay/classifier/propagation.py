"""Importance that spreads from decisions and tool results to the tokens beside them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from memdecay.classifier.regions import Region, RegionTable

SOURCE_REGIONS = (Region.KEY_DECISION, Region.TOOL_SUMMARY)


@dataclass(frozen=True, slots=True)
class PropagationConfig:
    """How far and how strongly importance spreads.

    Attributes:
        radius: Distance in tokens up to which a source raises its neighbours; 0 for none.
        attenuation: Factor per token of distance, in (0, 1].
    """

    radius: int = 3
    attenuation: float = 0.8

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: The radius is negative or the attenuation is not in (0, 1].
        """
        if self.radius < 0:
            raise ValueError(f"radius must be 0 or above, got {self.radius}")
        if not 0 < self.attenuation <= 1:
            raise ValueError(f"attenuation must lie in (0, 1], got {self.attenuation}")


def expected_importance(region_probs: Tensor, initial_scores: Tensor) -> Tensor:
    """Return the expected initial score of each token.

    Args:
        region_probs: ``(batch, seq_len, num_regions)``, float32.
        initial_scores: ``(num_regions,)``, float32.

    Returns:
        ``(batch, seq_len)``, float32.
    """
    return (region_probs * initial_scores).sum(dim=-1)


def source_strength(region_probs: Tensor, initial_scores: Tensor) -> Tensor:
    """Return the part of each token's expected score that it passes on to its neighbours.

    Only the probability of the source regions counts, so that the strength falls smoothly to zero
    as a token turns into something else; a hard argmax would flip on rounding.

    Args:
        region_probs: ``(batch, seq_len, num_regions)``, float32.
        initial_scores: ``(num_regions,)``, float32.

    Returns:
        ``(batch, seq_len)``, float32.
    """
    chosen = torch.zeros_like(initial_scores)
    chosen[list(SOURCE_REGIONS)] = 1.0
    return expected_importance(region_probs, initial_scores * chosen)


def propagate_importance(importance: Tensor, strength: Tensor, config: PropagationConfig) -> Tensor:
    """Raise each token to the strongest attenuated source within the radius.

    ``out[i] = max(importance[i], max over |d| <= radius of attenuation**|d| * strength[i + d])``

    Args:
        importance: ``(batch, seq_len)``, float32.
        strength: ``(batch, seq_len)``, float32, zero or above; zero for padding.
        config: Radius and attenuation.

    Returns:
        ``(batch, seq_len)``, float32, nowhere below ``importance``.
    """
    seq_len = importance.shape[1]
    padded = functional.pad(strength, (config.radius, config.radius))
    raised = importance
    for shift in range(2 * config.radius + 1):
        factor = config.attenuation ** abs(shift - config.radius)
        raised = torch.maximum(raised, factor * padded[:, shift : shift + seq_len])
    return raised


def initial_scores_tensor(table: RegionTable) -> Tensor:
    """Return the table's initial scores as ``(num_regions,)``, float32."""
    return torch.tensor(table.initial_scores, dtype=torch.float32)


def importance_of(
    region_probs: Tensor, token_mask: Tensor, table: RegionTable, config: PropagationConfig
) -> Tensor:
    """Return the propagated importance of tokens, as the exported graph computes it.

    Args:
        region_probs: ``(batch, seq_len, num_regions)``, float32.
        token_mask: ``(batch, seq_len)``, bool; False marks padding, which gets zero and passes
            nothing on.
        table: Initial scores.
        config: Radius and attenuation.

    Returns:
        ``(batch, seq_len)``, float32.
    """
    scores = initial_scores_tensor(table).to(region_probs.device)
    real = token_mask.to(region_probs)
    importance = expected_importance(region_probs, scores) * real
    strength = source_strength(region_probs, scores) * real
    return propagate_importance(importance, strength, config) * real
