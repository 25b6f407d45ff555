"""Will it fit: the bytes that a model and its sessions take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LOGIT_BYTES = 4  # Logits are computed in float32.


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers of a model that decide about memory.

    Attributes:
        num_parameters: Weights, tied ones counted once.
        num_layers: Layers that keep keys and values.
        num_key_value_heads: Heads of keys and values; fewer than those of queries where they are
            shared (GQA).
        head_dim: Width of a head.
        hidden_size: Width of a hidden state.
        intermediate_size: Width of a layer's inner part.
        vocab_size: Number of logits of a token.
    """

    num_parameters: int
    num_layers: int
    num_key_value_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A number is below 1.
        """
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Load:
    """What the model is to carry.

    Attributes:
        num_sessions: Sessions on the device at one time.
        budget_tokens: Tokens that each keeps.
        chunk_tokens: Most tokens of one forward while reading.
        bytes_per_value: Bytes of a weight, a key or a value.
    """

    num_sessions: int
    budget_tokens: int
    chunk_tokens: int
    bytes_per_value: int

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A number is below 1.
        """
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The bytes of each part.

    Attributes:
        weights: The model.
        kv_per_token: Keys and values of one token.
        kv_per_session: Those of one session's budget.
        kv: Those of all sessions.
        activations: What the largest forward needs beside that, about.
    """

    weights: int
    kv_per_token: int
    kv_per_session: int
    kv: int
    activations: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.kv + self.activations


def kv_bytes_per_token(shape: ModelShape, bytes_per_value: int) -> int:
    """Return 2 · layers · key and value heads · head width · bytes of a value."""
    return 2 * shape.num_layers * shape.num_key_value_heads * shape.head_dim * bytes_per_value


def estimate_sizes(shape: ModelShape, load: Load) -> Sizes:
    """Return what the parts take.

    Activations are an estimate: of the largest layer, the states that live at one time (input,
    residual, queries, keys, values and output, twice the inner width), for a chunk or one token of
    each session, whichever is more; and the logits of one token of each session.
    """
    per_token = kv_bytes_per_token(shape, load.bytes_per_value)
    per_session = per_token * load.budget_tokens
    num_tokens = max(load.chunk_tokens, load.num_sessions)
    states = 6 * shape.hidden_size + 2 * shape.intermediate_size
    logits = load.num_sessions * shape.vocab_size * LOGIT_BYTES
    return Sizes(
        weights=shape.num_parameters * load.bytes_per_value,
        kv_per_token=per_token,
        kv_per_session=per_session,
        kv=per_session * load.num_sessions,
        activations=num_tokens * states * load.bytes_per_value + logits,
    )


def most_sessions(shape: ModelShape, load: Load, available_bytes: int) -> int:
    """Return how many sessions of this budget fit, whatever ``num_sessions`` says; 0 if none."""
    fewest, too_many = 0, 1
    while _fits(shape, load, too_many, available_bytes):
        fewest, too_many = too_many, 2 * too_many
    while too_many - fewest > 1:
        middle = (fewest + too_many) // 2
        if _fits(shape, load, middle, available_bytes):
            fewest = middle
        else:
            too_many = middle
    return fewest


def read_shape(config: Any, num_parameters: int) -> ModelShape:
    """Return the numbers of a transformers config.

    Args:
        config: The text model's config.
        num_parameters: Weights, tied ones counted once.
    """
    num_heads = int(config.num_attention_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // num_heads
    return ModelShape(
        num_parameters=num_parameters,
        num_layers=int(config.num_hidden_layers),
        num_key_value_heads=int(getattr(config, "num_key_value_heads", None) or num_heads),
        head_dim=int(head_dim),
        hidden_size=int(config.hidden_size),
        intermediate_size=int(getattr(config, "intermediate_size", 4 * config.hidden_size)),
        vocab_size=int(config.vocab_size),
    )


def _fits(shape: ModelShape, load: Load, num_sessions: int, available_bytes: int) -> bool:
    wanted = Load(num_sessions, load.budget_tokens, load.chunk_tokens, load.bytes_per_value)
    return estimate_sizes(shape, wanted).total <= available_bytes
