"""Settings of a training run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import NUM_REGIONS, RegionTable


class ClassWeighting(StrEnum):
    """How much rare regions count in the loss."""

    NONE = "none"
    SQRT = "sqrt"
    BALANCED = "balanced"


@dataclass(frozen=True, slots=True)
class NetworkSizes:
    """Sizes of the network that do not follow from the LLM; see `NetworkConfig`."""

    projection_size: int = 32
    mlp_size: int = 64
    context_tokens: int = 8
    dropout: float = 0.3
    hidden_dropout: float = 0.6
    rules_weight: float = 8.0

    def __post_init__(self) -> None:
        """Check the ranges now: the LLM's sizes become known only after a costly extraction.

        Raises:
            ValueError: A value is out of its range.
        """
        NetworkConfig(hidden_size=1, num_position_features=NUM_REGIONS, **asdict(self))


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """How the weights are moved.

    Attributes:
        learning_rate: Peak of the one-cycle schedule.
        weight_decay: AdamW's decay.
        label_smoothing: Probability mass spread over the other regions.
        class_weighting: ``none``, or weights by the inverse (``balanced``) or the inverse square
            root (``sqrt``) of a region's share of the training tokens.
    """

    learning_rate: float = 4e-3
    weight_decay: float = 0.05
    label_smoothing: float = 0.05
    class_weighting: ClassWeighting = ClassWeighting.SQRT

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"learning_rate must be a number above 0, got {self.learning_rate}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay must be a number from 0 on, got {self.weight_decay}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must lie in [0, 1), got {self.label_smoothing}")


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """Which traces are held out; tasks are never torn apart.

    Attributes:
        validation_share: Share of the tasks for early stopping and the temperature.
        test_share: Share of the tasks on which the printed figures are measured.
        seed: Seed of the draw.
    """

    validation_share: float = 0.15
    test_share: float = 0.15
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the shares.

        Raises:
            ValueError: A share is not in (0, 1), or nothing is left to train on.
        """
        for name in ("validation_share", "test_share"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")
        if self.validation_share + self.test_share >= 0.9:
            raise ValueError(
                "validation_share and test_share together must stay below 0.9, got "
                f"{self.validation_share} and {self.test_share}"
            )


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """Where Lightning trains; the values are Lightning's own.

    Attributes:
        accelerator: ``auto``, ``cpu``, ``gpu``, ...
        devices: A number, a list as text (``0,1``) or ``auto``.
        strategy: ``auto``, ``ddp``, ...
        precision: ``32-true``, ``bf16-mixed``, ...
        num_workers: Loader processes a device; 0 loads in the training process.
    """

    accelerator: str = "auto"
    devices: str = "auto"
    strategy: str = "auto"
    precision: str = "32-true"
    num_workers: int = 0


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """All settings of `fit`.

    Attributes:
        max_epochs: Passes over the training tokens at most.
        patience: Passes without a better validation loss after which training stops.
        epoch_tokens: Tokens of a pass at most, drawn anew for each; half as many validation tokens
            are looked at after it. Neighbouring tokens have nearly all features in common, so that
            a share of them teaches what all would.
        batch_chunks: Chunks in a batch.
        chunk_tokens: Tokens in a chunk; chunks are shuffled, tokens inside one stay in order.
        seed: Seed of the weights and of the order of chunks.
        temperature: Divisor of the logits; None to fit it to the validation traces.
    """

    max_epochs: int = 10
    patience: int = 5
    epoch_tokens: int = 40_000
    batch_chunks: int = 16
    chunk_tokens: int = 64
    seed: int = 0
    temperature: float | None = None
    network: NetworkSizes = field(default_factory=NetworkSizes)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    device: DeviceConfig = field(default_factory=DeviceConfig)
    region_table: RegionTable = field(default_factory=RegionTable)
    propagation: PropagationConfig = field(default_factory=PropagationConfig)

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: A count is below 1, the temperature is not above 0, or the network looks
                further than a chunk is long.
        """
        for name in ("max_epochs", "patience", "epoch_tokens", "batch_chunks", "chunk_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.temperature is not None and not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be a number above 0, got {self.temperature}")
        if self.network.context_tokens > self.chunk_tokens:
            raise ValueError(
                f"context_tokens must be at most the {self.chunk_tokens} tokens of a training "
                f"chunk, got {self.network.context_tokens}"
            )
