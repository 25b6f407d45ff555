"""Bring region labels from characters to tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.regions import Region
from memdecay.classifier.rendering import RenderedConversation
from memdecay.classifier.token_regions import UNLABELLED, most_covering
from memdecay.classifier.tokenization import TokenizedConversation
from memdecay.data.trace import Span

__all__ = ["UNLABELLED", "align", "character_regions"]


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
    labels = most_covering(regions, tokens.offsets[:, 0], tokens.offsets[:, 1])
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
