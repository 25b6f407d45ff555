"""Find the decoder of a language model and the layers in it."""

from __future__ import annotations

from typing import Any

from torch import nn

from memdecay.classifier.errors import ModelError


def find_decoder(model: Any) -> Any:
    """Return the part of a model that runs the layers and builds the attention mask."""
    decoder = model.get_decoder()
    return model if decoder is None else decoder


def decoder_layers(decoder: Any) -> nn.ModuleList:
    """Return a decoder's layers, in order.

    Raises:
        ModelError: The decoder keeps them in no list of its own.
    """
    num_layers = decoder.config.get_text_config().num_hidden_layers
    for child in decoder.children():
        if isinstance(child, nn.ModuleList) and len(child) == num_layers:
            return child
    raise ModelError(
        f"expected {type(decoder).__name__} to hold a list of {num_layers} layers, found none; "
        "use a decoder-only model from transformers"
    )
