"""The loaders that Lightning asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import lightning
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.chunks import UNLABELLED, ChunkDataset, Window, WindowSource, collate
from memdecay.training.config import TrainingConfig


class RegionDataModule(lightning.LightningDataModule):  # type: ignore[misc]
    """Loaders over the windows of the training, validation and test traces.

    Args:
        source: All windows.
        windows: Window indices by ``train``, ``validation`` and ``test``.
        config: Settings of the run.
    """

    def __init__(
        self, source: WindowSource, windows: Mapping[str, Sequence[int]], config: TrainingConfig
    ) -> None:
        super().__init__()
        self._source = source
        self._windows = windows
        self._config = config

    def train_dataloader(self) -> DataLoader[Window]:
        """Return shuffled chunks of the training windows, a pass's worth of them."""
        dataset = self._chunks("train")
        return self._loader(dataset, self._shuffler(dataset))

    def val_dataloader(self) -> DataLoader[Window]:
        """Return chunks of the validation windows in order, the same ones each time."""
        return self._loader(self._chunks("validation", max(1, self._epoch_chunks // 2)))

    def test_dataloader(self) -> DataLoader[Window]:
        """Return the test windows in order."""
        return self._loader(self._chunks("test"))

    def predict_dataloader(self) -> DataLoader[Window]:
        """Return the test windows in order."""
        return self._loader(self._chunks("test"))

    def region_counts(self) -> NDArray[np.int64]:
        """Count the training tokens of each region, ``(num_regions,)``."""
        counts = np.zeros(NUM_REGIONS, np.int64)
        for index in self._windows["train"]:
            labels = self._source.window(index).labels
            counts += np.bincount(labels[labels != UNLABELLED], minlength=NUM_REGIONS)
        return counts

    def feature_statistics(self) -> tuple[Tensor, Tensor]:
        """Return means and deviations of the position features over the labelled training tokens.

        Returns:
            Two of ``(num_position_features,)``, float32.
        """
        count, total, squares = 0, np.zeros(1), np.zeros(1)
        for index in self._windows["train"]:
            window = self._source.window(index)
            features = window.position_features[window.labels != UNLABELLED].astype(np.float64)
            count += len(features)
            total = total + features.sum(axis=0)
            squares = squares + (features**2).sum(axis=0)
        means = total / max(count, 1)
        deviations = np.sqrt(np.maximum(squares / max(count, 1) - means**2, 0.0))
        return torch.from_numpy(means).float(), torch.from_numpy(deviations).float()

    @property
    def _epoch_chunks(self) -> int:
        return max(1, self._config.epoch_tokens // self._config.chunk_tokens)

    def _chunks(self, part: str, max_chunks: int | None = None) -> ChunkDataset:
        return ChunkDataset(
            self._source,
            self._windows[part],
            self._config.chunk_tokens,
            self._config.network.context_tokens,
            max_chunks,
        )

    def _loader(
        self, dataset: ChunkDataset, sampler: DistributedSampler[Window] | None = None
    ) -> DataLoader[Any]:
        return DataLoader(
            dataset,
            batch_size=self._config.batch_chunks,
            sampler=sampler,
            collate_fn=collate,
            num_workers=self._config.device.num_workers,
            persistent_workers=self._config.device.num_workers > 0,
        )

    def _shuffler(self, dataset: ChunkDataset) -> DistributedSampler[Window]:
        num_replicas = self.trainer.world_size if self.trainer else 1
        return _PassSampler(
            dataset,
            max_chunks=max(1, self._epoch_chunks // num_replicas),
            num_replicas=num_replicas,
            rank=self.trainer.global_rank if self.trainer else 0,
            seed=self._config.seed,
        )


class _PassSampler(DistributedSampler[Window]):
    """Draws some of the chunks for each pass, others for the next.

    Lightning tells this sampler the epoch, from which and the seed it draws the order: a resumed
    run meets the chunks as an unbroken one does.
    """

    def __init__(self, dataset: ChunkDataset, *, max_chunks: int, **options: Any) -> None:
        super().__init__(dataset, **options)
        self._max_chunks = max_chunks

    def __iter__(self) -> Iterator[Window]:
        # Indices of windows: torch's annotation says what they lead to.
        return islice(super().__iter__(), self._max_chunks)

    def __len__(self) -> int:
        return min(super().__len__(), self._max_chunks)
