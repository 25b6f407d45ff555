"""The loaders that Lightning asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lightning
import numpy as np
from numpy.typing import NDArray
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
        """Return shuffled chunks of the training windows."""
        return self._loader("train", shuffle=True)

    def val_dataloader(self) -> DataLoader[Window]:
        """Return the validation windows in order."""
        return self._loader("validation", shuffle=False)

    def test_dataloader(self) -> DataLoader[Window]:
        """Return the test windows in order."""
        return self._loader("test", shuffle=False)

    def predict_dataloader(self) -> DataLoader[Window]:
        """Return the test windows in order."""
        return self._loader("test", shuffle=False)

    def region_counts(self) -> NDArray[np.int64]:
        """Count the training tokens of each region, ``(num_regions,)``."""
        counts = np.zeros(NUM_REGIONS, np.int64)
        for index in self._windows["train"]:
            labels = self._source.window(index).labels
            counts += np.bincount(labels[labels != UNLABELLED], minlength=NUM_REGIONS)
        return counts

    def _loader(self, part: str, *, shuffle: bool) -> DataLoader[Any]:
        dataset = ChunkDataset(
            self._source,
            self._windows[part],
            self._config.chunk_tokens,
            self._config.network.context_tokens,
        )
        return DataLoader(
            dataset,
            batch_size=self._config.batch_chunks,
            sampler=self._shuffler(dataset) if shuffle else None,
            collate_fn=collate,
            num_workers=self._config.device.num_workers,
            persistent_workers=self._config.device.num_workers > 0,
        )

    def _shuffler(self, dataset: ChunkDataset) -> DistributedSampler[Window]:
        # Lightning tells this sampler the epoch, from which and the seed it draws the order: a
        # resumed run meets the chunks as an unbroken one does.
        return DistributedSampler(
            dataset,
            num_replicas=self.trainer.world_size if self.trainer else 1,
            rank=self.trainer.global_rank if self.trainer else 0,
            seed=self._config.seed,
        )
