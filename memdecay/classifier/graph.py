"""The whole computation that is exported: features in, region probabilities and importance out."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from memdecay.classifier.network import RegionNetwork
from memdecay.classifier.propagation import (
    PropagationConfig,
    expected_importance,
    initial_scores_tensor,
    propagate_importance,
    source_strength,
)
from memdecay.classifier.regions import RegionTable

INPUT_NAMES = ("hidden_states", "position_features", "token_mask")
OUTPUT_NAMES = ("region_probs", "importance")


class TaggingGraph(nn.Module):
    """Network, temperature, expected score and propagation in one module."""

    initial_scores: Tensor
    temperature: Tensor

    def __init__(
        self,
        network: RegionNetwork,
        table: RegionTable,
        propagation: PropagationConfig,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, got {temperature}")
        self.network = network
        self.propagation = propagation
        self.register_buffer("initial_scores", initial_scores_tensor(table))
        self.register_buffer("temperature", torch.tensor(float(temperature)))

    def forward(
        self, hidden_states: Tensor, position_features: Tensor, token_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Tag every token.

        Args:
            hidden_states: ``(batch, seq_len, hidden_size)``, float32.
            position_features: ``(batch, seq_len, num_position_features)``, float32.
            token_mask: ``(batch, seq_len)``, bool; False marks padding.

        Returns:
            Region probabilities ``(batch, seq_len, num_regions)`` and propagated importance
            ``(batch, seq_len)``, float32. Padding gets importance zero and passes nothing on.
        """
        seq_len = token_mask.shape[1]
        # One token of padding behind the last: runtimes differ in what they make of an operator
        # on an empty sequence, and a sequence of padding alone is none.
        token_mask = functional.pad(token_mask, (0, 1))
        logits = self.network(
            functional.pad(hidden_states, (0, 0, 0, 1)),
            functional.pad(position_features, (0, 0, 0, 1)),
            token_mask,
        )
        region_probs = torch.softmax(logits / self.temperature, dim=-1)
        real = token_mask.to(region_probs.dtype)
        importance = expected_importance(region_probs, self.initial_scores) * real
        strength = source_strength(region_probs, self.initial_scores) * real
        raised = propagate_importance(importance, strength, self.propagation) * real
        return region_probs[:, :seq_len], raised[:, :seq_len]


def receptive_field(context_tokens: int, propagation_radius: int) -> int:
    """Return how many tokens on each side can change a token's tags."""
    return context_tokens + propagation_radius
