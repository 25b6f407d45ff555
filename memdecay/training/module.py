"""The LightningModule: loss, metrics and optimizer around the region network."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from torch import Tensor
from torch.nn import functional
from torchmetrics.classification import MulticlassF1Score

from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.chunks import UNLABELLED, Batch
from memdecay.training.config import OptimizerConfig


class RegionModule(lightning.LightningModule):  # type: ignore[misc]
    """Trains a region network with a one-cycle schedule.

    Args:
        network: Sizes of the network.
        optimizer: How the weights are moved.
        class_weights: ``(num_regions,)``, float32, or None for equal weights.
    """

    def __init__(
        self, network: NetworkConfig, optimizer: OptimizerConfig, class_weights: Tensor | None
    ) -> None:
        super().__init__()
        self.network = network.build()
        self._optimizer = optimizer
        self.register_buffer("class_weights", class_weights, persistent=False)
        self.validation_f1 = MulticlassF1Score(
            NUM_REGIONS, average="macro", ignore_index=UNLABELLED
        )

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """Return the loss of a batch."""
        loss = self._loss(self._logits(batch), batch.labels, self._optimizer.label_smoothing)
        self.log("train_loss", loss, on_step=False, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch: Batch, _: int) -> None:
        """Gather the loss and the F1 of a validation batch.

        One without any label is gathered with the weight zero: processes wait for each other where
        the figures are added up, so each of them must have some.
        """
        logits = self._logits(batch)
        num_labelled = int((batch.labels != UNLABELLED).sum())
        loss = self._loss(logits, batch.labels, 0.0)
        self.validation_f1.update(logits.reshape(-1, NUM_REGIONS), batch.labels.reshape(-1))
        options: dict[str, Any] = {"on_epoch": True, "prog_bar": True}
        self.log("val_loss", loss, batch_size=num_labelled, sync_dist=True, **options)
        self.log("val_f1", self.validation_f1, **options)

    def predict_step(self, batch: Batch, _: int) -> tuple[Tensor, Tensor]:
        """Return logits ``(tokens, num_regions)`` and labels ``(tokens,)`` of labelled tokens."""
        labelled = batch.labels != UNLABELLED
        return self._logits(batch)[labelled], batch.labels[labelled]

    def configure_optimizers(self) -> dict[str, Any]:
        """Return AdamW under a one-cycle schedule over all steps."""
        optimizer = torch.optim.AdamW(
            self.parameters(),
            lr=self._optimizer.learning_rate,
            weight_decay=self._optimizer.weight_decay,
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            max_lr=self._optimizer.learning_rate,
            total_steps=max(2, int(self.trainer.estimated_stepping_batches)),
            pct_start=0.15,
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def _logits(self, batch: Batch) -> Tensor:
        logits: Tensor = self.network(
            batch.hidden_states, batch.position_features, batch.token_mask
        )
        return logits

    def _loss(self, logits: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        flat_labels = labels.reshape(-1)
        loss = functional.cross_entropy(
            logits.reshape(-1, NUM_REGIONS),
            flat_labels,
            weight=self.class_weights,
            ignore_index=UNLABELLED,
            label_smoothing=label_smoothing,
            reduction="sum",
        )
        # A mean over no labelled token would be NaN; the sum over none is zero.
        return loss / (flat_labels != UNLABELLED).sum().clamp_min(1)
