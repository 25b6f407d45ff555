"""Random windows whose labels can be learned, for the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.chunks import Window


@dataclass(frozen=True)
class ListSource:
    """Windows held in a list."""

    windows: list[Window]

    def __len__(self) -> int:
        return len(self.windows)

    def num_tokens(self, index: int) -> int:
        return len(self.windows[index].labels)

    def window(self, index: int) -> Window:
        return self.windows[index]


def learnable_source(
    num_windows: int, hidden_size: int, num_position_features: int, seed: int = 0
) -> ListSource:
    """Return windows of random length in which the hidden state tells the region."""
    generator = np.random.default_rng(seed)
    directions = generator.normal(size=(NUM_REGIONS, hidden_size))
    windows = []
    for _ in range(num_windows):
        length = int(generator.integers(20, 90))
        labels = np.repeat(generator.integers(0, NUM_REGIONS, length // 5 + 1), 5)[:length]
        noise = generator.normal(size=(length, hidden_size))
        labels = labels.astype(np.int8)
        hidden = (2.0 * directions[labels] + noise).astype(np.float16)
        labels[generator.random(length) < 0.1] = -1
        position = generator.random((length, num_position_features)).astype(np.float32)
        windows.append(Window(hidden, position, labels))
    return ListSource(windows)
