"""The labelled tokens of some traces with the probabilities that a classifier gave them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.artifact import ClassifierArtifact
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.data.store import ExtractedStore
from memdecay.training.chunks import UNLABELLED
from memdecay.training.evaluation import tag_store

_LEAST_PROBABILITY = 1e-30


@dataclass(frozen=True, slots=True, eq=False)
class TaggedTokens:
    """Labelled tokens in the order of their traces; every array has one row a token.

    Attributes:
        region_probs: ``(n, num_regions)``, float32.
        labels: ``(n,)``, int64; the region's index.
        trace: ``(n,)``, int64, not falling; the index of the token's trace.
        message: ``(n,)``, int64; the message in the trace.
        position: ``(n,)``, int64; tokens before this one in the trace, unlabelled ones included.
    """

    region_probs: NDArray[np.float32]
    labels: NDArray[np.int64]
    trace: NDArray[np.int64]
    message: NDArray[np.int64]
    position: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Check the shapes.

        Raises:
            ValueError: The arrays do not belong together.
        """
        expected = (len(self.labels), NUM_REGIONS)
        if self.region_probs.shape != expected:
            raise ValueError(
                f"region_probs must have shape {expected}, got {self.region_probs.shape}"
            )
        for name in ("trace", "message", "position"):
            if len(getattr(self, name)) != len(self.labels):
                raise ValueError(
                    f"{name} must have {len(self.labels)} rows, got {len(getattr(self, name))}"
                )

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.labels)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The most probable region of each token, ``(n,)`` int64."""
        predicted: NDArray[np.int64] = self.region_probs.argmax(axis=1)
        return predicted

    @property
    def confidence(self) -> NDArray[np.float32]:
        """The probability of that region, ``(n,)`` float32."""
        confidence: NDArray[np.float32] = self.region_probs.max(axis=1, initial=0.0)
        return confidence

    def of_traces(self, wanted: NDArray[np.bool_]) -> TaggedTokens:
        """Return the tokens of some traces; the traces keep their indices.

        Args:
            wanted: ``(num_traces,)``, which to keep.
        """
        return self.where(wanted[self.trace])

    def where(self, mask: NDArray[np.bool_]) -> TaggedTokens:
        """Return the tokens for which a mask of shape ``(n,)`` holds."""
        return TaggedTokens(**{item.name: getattr(self, item.name)[mask] for item in fields(self)})


def tagged_tokens(artifact: ClassifierArtifact, store: ExtractedStore) -> TaggedTokens:
    """Run a classifier's exported graph over a store and keep where each labelled token stands.

    Raises:
        ArtifactError: ONNX Runtime cannot open the graph.
    """
    region_probs, labels = tag_store(artifact, store)
    traces, messages, positions = [], [], []
    for index in range(len(store)):
        window = store.window(index)
        labelled = window.labels != UNLABELLED
        traces.append(np.full(int(labelled.sum()), store.record(index).trace, np.int64))
        messages.append(window.message_index[labelled].astype(np.int64))
        positions.append(window.position[labelled].astype(np.int64))
    return TaggedTokens(
        region_probs=region_probs.numpy(),
        labels=labels.numpy(),
        trace=np.concatenate(traces),
        message=np.concatenate(messages),
        position=np.concatenate(positions),
    )


def logits_of(region_probs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return logits whose softmax are these probabilities, same shape, float32."""
    return np.log(np.maximum(region_probs, _LEAST_PROBABILITY)).astype(np.float32)


def without_temperature(
    region_probs: NDArray[np.float32], temperature: float
) -> NDArray[np.float32]:
    """Return the probabilities that a classifier gave before its logits were divided.

    With ``p = softmax(z / T)`` the undivided logits are ``T log p`` but for a constant, so that
    ``softmax(z) = softmax(T log p)``.

    Args:
        region_probs: ``(n, num_regions)``, float32.
        temperature: T, above zero.

    Returns:
        ``(n, num_regions)``, float32.
    """
    logits = temperature * logits_of(region_probs).astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    undivided: NDArray[np.float32] = weights / weights.sum(axis=1, keepdims=True)
    return undivided.astype(np.float32)
