"""Bring regions from the characters of a rendered text to its tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.classifier.rendering import RenderedConversation

UNLABELLED = -1


def rendered_regions(
    labels: Sequence[NDArray[np.int8]], rendered: RenderedConversation
) -> NDArray[np.int8]:
    """Return the region of each character of the rendered text, ``(len(text),)`` int8.

    Structured tool calls are `Region.TOOL_SUMMARY`, the template's own text is `UNLABELLED`.

    Args:
        labels: For each message the region of each character of its content; messages behind the
            last of them stay `UNLABELLED`.
        rendered: The messages as text.
    """
    regions = np.full(len(rendered.text), UNLABELLED, np.int8)
    for message in rendered.messages:
        regions[message.calls_start : message.calls_end] = Region.TOOL_SUMMARY
    for message, characters in zip(rendered.messages, labels, strict=False):
        shown = characters[message.content_skip :]
        shown = shown[: message.content_end - message.content_start]
        regions[message.content_start : message.content_start + len(shown)] = shown
    return regions


def most_covering(
    regions: NDArray[np.int8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Return the region that covers most characters of each token.

    Args:
        regions: ``(num_characters,)``, int8; `UNLABELLED` counts for nothing.
        starts: ``(n,)``, int64; first character of each token.
        ends: ``(n,)``, int64; its end, exclusive.

    Returns:
        ``(n,)``, int8; the earlier region if two cover as many, `UNLABELLED` where none does.
    """
    counts = np.zeros((starts.size, NUM_REGIONS), np.int64)
    running = np.zeros(regions.size + 1, np.int64)
    for region in range(NUM_REGIONS):
        np.cumsum(regions == region, out=running[1:])
        counts[:, region] = running[ends] - running[starts]
    most = counts.max(axis=1)
    labels = np.where(most > 0, counts.argmax(axis=1), UNLABELLED).astype(np.int8)
    is_tied = (most > 0) & ((counts == most[:, None]).sum(axis=1) > 1)
    for token in np.flatnonzero(is_tied):
        covering = regions[starts[token] : ends[token]]
        labels[token] = next(r for r in covering if r >= 0 and counts[token, r] == most[token])
    return labels
