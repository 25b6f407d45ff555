"""Keep a model from an attention implementation that goes wrong where the model runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel

_FLEX = "flex_attention"


@contextmanager
def sound_attention(decoder: PreTrainedModel) -> Iterator[None]:
    """Let a model on a CPU do without torch's flex attention, until the block ends.

    There torch 2.13 gives NaN for queries that come behind keys of earlier forwards, or fails to
    compile, with transformers' own caches as well. The model computes the same with torch's other
    attention, or with its own where that knows too little.

    Args:
        decoder: The part of a model that holds the layers.
    """
    if not _is_flex(decoder) or decoder.device.type != "cpu":
        yield
        return
    before = decoder.config._attn_implementation
    # transformers sets this to False where logits are capped, which torch's sdpa can't do.
    other = "sdpa" if decoder._supports_sdpa else "eager"
    warnings.warn(
        f"flex attention gives NaN on a CPU once there are cached tokens, so {other} attention is "
        "computed in its place; load the model with attn_implementation='sdpa' to choose it "
        "yourself",
        RuntimeWarning,
        stacklevel=2,
    )
    decoder.set_attn_implementation(other)
    try:
        yield
    finally:
        decoder.set_attn_implementation(before)


def _is_flex(decoder: PreTrainedModel) -> bool:
    # Functions that stand around it add to its name.
    return str(decoder.config._attn_implementation).partition("_memdecay_")[0] == _FLEX
