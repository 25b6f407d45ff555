"""The tiny network that turns hidden states and position features into region logits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from memdecay.classifier.regions import NUM_REGIONS

_MIN_DEVIATION = 1e-3
_MAX_DEVIATIONS = 6.0


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Sizes of a `RegionNetwork`.

    Attributes:
        hidden_size: Width of the LLM's hidden states.
        num_position_features: Width of the position features, those of the text included.
        projection_size: Width to which each hidden state is projected first.
        mlp_size: Width of the MLP's inner layer.
        context_tokens: How many tokens on each side a token's context means look at; 0 for none.
        dropout: Probability of dropping an inner unit while training.
        hidden_dropout: Probability of leaving a token's hidden states out while training, those of
            its neighbours included: on sources never seen they say less than on those trained on.
        rules_column: Where the rules' scores of the regions begin among the position features.
        rules_weight: What the rules' scores count for beside the network's own logits; 0 leaves
            them to the network.
    """

    hidden_size: int
    num_position_features: int
    projection_size: int = 64
    mlp_size: int = 128
    context_tokens: int = 8
    dropout: float = 0.1
    hidden_dropout: float = 0.0
    rules_column: int = 0
    rules_weight: float = 0.0

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            ValueError: A size is not positive, a dropout is not in [0, 1), the weight of the rules
                is negative, or their scores lie outside the position features.
        """
        for name in ("hidden_size", "num_position_features", "projection_size", "mlp_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.context_tokens < 0:
            raise ValueError(f"context_tokens must be 0 or above, got {self.context_tokens}")
        for name in ("dropout", "hidden_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        if not (math.isfinite(self.rules_weight) and self.rules_weight >= 0):
            raise ValueError(f"rules_weight must be a number from 0 on, got {self.rules_weight}")
        last_column = self.num_position_features - NUM_REGIONS
        if self.rules_weight and not 0 <= self.rules_column <= last_column:
            raise ValueError(
                f"rules_column must lie in 0 to {last_column}, got {self.rules_column}"
            )

    def build(self) -> RegionNetwork:
        """Return a network of these sizes with fresh weights."""
        return RegionNetwork(self)


class RegionNetwork(nn.Module):
    """An MLP over a token's projected hidden state, its neighbours' means and its position.

    The left and right context means are taken after the projection: a mean commutes with a linear
    map, and the projected vectors are an order of magnitude narrower.

    Position features are brought to mean 0 and deviation 1 over the training tokens (see
    `standardize`), so that rare ones weigh as much as those that are nearly always there.

    The rules' scores are added to the logits only outside training. Trained on top of them, the
    network would learn to mend the rules where they fail on the sources at hand, and be wrong
    elsewhere; as two opinions formed apart, each holds the other in check.
    """

    feature_means: Tensor
    feature_scales: Tensor

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        num_views = 3 if config.context_tokens else 1
        self.norm = nn.LayerNorm(config.hidden_size)
        self.projection = nn.Linear(config.hidden_size, config.projection_size)
        width = config.num_position_features
        self.register_buffer("feature_means", torch.zeros(width))
        self.register_buffer("feature_scales", torch.ones(width))
        self.mlp = nn.Sequential(
            nn.Linear(
                num_views * config.projection_size + config.num_position_features, config.mlp_size
            ),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.mlp_size, config.mlp_size),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.mlp_size, NUM_REGIONS),
        )

    def standardize(self, means: Tensor, deviations: Tensor) -> None:
        """Set what brings the position features to mean 0 and deviation 1.

        Args:
            means: ``(num_position_features,)``, float32.
            deviations: ``(num_position_features,)``, float32; what is nearly constant is not
                blown up.

        Raises:
            ValueError: They have another width.
        """
        width = (self.config.num_position_features,)
        if means.shape != width or deviations.shape != width:
            raise ValueError(
                f"means and deviations must be {width}, got {tuple(means.shape)} and "
                f"{tuple(deviations.shape)}"
            )
        self.feature_means.copy_(means)
        self.feature_scales.copy_(1.0 / (deviations + _MIN_DEVIATION))

    def forward(
        self, hidden_states: Tensor, position_features: Tensor, token_mask: Tensor
    ) -> Tensor:
        """Return region logits.

        Args:
            hidden_states: ``(batch, seq_len, hidden_size)``, float32.
            position_features: ``(batch, seq_len, num_position_features)``, float32.
            token_mask: ``(batch, seq_len)``, bool; False marks padding, which no context mean sees.

        Returns:
            ``(batch, seq_len, num_regions)``, float32.
        """
        projected = self.projection(self.norm(hidden_states))
        views = [projected]
        if self.config.context_tokens:
            views += context_means(projected, token_mask, self.config.context_tokens)
        hidden_views = torch.cat(views, dim=-1)
        if self.training and self.config.hidden_dropout:
            kept = torch.rand_like(hidden_views[..., :1]) >= self.config.hidden_dropout
            hidden_views = hidden_views * kept
        features = (position_features - self.feature_means) * self.feature_scales
        features = features.clamp(-_MAX_DEVIATIONS, _MAX_DEVIATIONS)
        logits: Tensor = self.mlp(torch.cat([hidden_views, features], dim=-1))
        if self.config.rules_weight and not self.training:
            first = self.config.rules_column
            logits = (
                logits
                + self.config.rules_weight * (position_features[..., first : first + NUM_REGIONS])
            )
        return logits


def context_means(values: Tensor, token_mask: Tensor, context_tokens: int) -> list[Tensor]:
    """Average the tokens before and the tokens after each token.

    Args:
        values: ``(batch, seq_len, size)``, float32.
        token_mask: ``(batch, seq_len)``, bool; False tokens count for nothing.
        context_tokens: Width of each of the two windows, at least 1.

    Returns:
        The left and the right means, each shaped like ``values``; zero where a window is empty.
    """
    seq_len = values.shape[1]
    weights = token_mask.unsqueeze(-1).to(values.dtype)
    summed = torch.cat([values * weights, weights], dim=-1)
    # One more pad on the right than needed, so that no sequence is too short for the sum.
    padded = functional.pad(summed.transpose(1, 2), (context_tokens, context_tokens + 1))
    windows = _running_sum(padded, context_tokens).transpose(1, 2)
    means = windows[..., :-1] / windows[..., -1:].clamp_min(1.0)
    left = means[:, :seq_len]
    right = means[:, context_tokens + 1 : context_tokens + 1 + seq_len]
    return [left, right]


def _running_sum(values: Tensor, width: int) -> Tensor:
    """Sum ``width`` neighbours of ``(batch, size, length)`` along the last axis.

    A convolution and no pooling: ONNX Runtime merges the padding into the operator after it, and
    refuses pooling that is padded by more than its width.
    """
    batch, size, length = values.shape
    rows = values.reshape(batch * size, 1, length)
    summed = functional.conv1d(rows, values.new_ones(1, 1, width))
    return summed.reshape(batch, size, length - width + 1)
