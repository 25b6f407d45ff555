"""Bring region labels from characters to tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import NUM_REGIONS, Region
from memdecay.classifier.rendering import RenderedConversation
from memdecay.classifier.tokenization import TokenizedConversation
from memdecay.data.trace import Span

UNLABELLED = -1


def align(
    spans: Sequence[Span], rendered: RenderedConversation, tokens: TokenizedConversation
) -> NDArray[np.int8]:
    """Return the region of each token.

    A token has the region that covers most of its characters, the earlier one if two cover as
    many. Structured tool calls are `Region.TOOL_SUMMARY`. Tokens outside all spans, template text
    and control tokens are `UNLABELLED`.

    Args:
        spans: The trace's labels, on the contents of the rendered messages.
        rendered: The trace as text.
        tokens: The tokens of that text.

    Returns:
        ``(n,)``, int8.
    """
    regions = character_regions(spans, rendered)
    labels = _most_covering(regions, tokens.offsets[:, 0], tokens.offsets[:, 1])
    labels[tokens.is_special] = UNLABELLED
    return labels


def character_regions(spans: Sequence[Span], rendered: RenderedConversation) -> NDArray[np.int8]:
    """Return the region of each character of the rendered text, ``(len(text),)`` int8."""
    regions = np.full(len(rendered.text), UNLABELLED, np.int8)
    for message in rendered.messages:
        regions[message.calls_start : message.calls_end] = Region.TOOL_SUMMARY
    for span in spans:
        message = rendered.messages[span.message]
        shift = message.content_start - message.content_skip
        start = max(span.start + shift, message.content_start)
        end = min(span.end + shift, message.content_end)
        regions[start : max(start, end)] = span.region
    return regions


def _most_covering(
    regions: NDArray[np.int8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int8]:
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
