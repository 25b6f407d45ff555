"""Tagging of tokens that arrive one by one or in chunks, equal to tagging them all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from memdecay.runtime.tagger import RegionTagger, Tags

MAX_CROP_TOKENS = 64


@dataclass(frozen=True, slots=True)
class TagUpdate:
    """Tags of the newest tokens, which replace earlier ones of the same positions.

    Attributes:
        start: Position of the first tagged token: tokens (padding included) before it.
        tags: Tags of that token and all after it.
    """

    start: int
    tags: Tags


@dataclass(frozen=True, slots=True)
class _Features:
    """The classifier's inputs for a stretch of tokens, ``(batch, n, ...)`` each."""

    hidden_states: Tensor
    position_features: Tensor
    token_mask: Tensor

    def __len__(self) -> int:
        return self.token_mask.shape[1]

    def follow(self, new: _Features) -> _Features:
        return _Features(
            torch.cat([self.hidden_states, new.hidden_states], dim=1),
            torch.cat([self.position_features, new.position_features], dim=1),
            torch.cat([self.token_mask, new.token_mask], dim=1),
        )

    def part(self, start: int, stop: int) -> _Features:
        return _Features(
            self.hidden_states[:, start:stop],
            self.position_features[:, start:stop],
            self.token_mask[:, start:stop],
        )

    def rows(self, rows: Tensor) -> _Features:
        return _Features(
            self.hidden_states[rows.to(self.hidden_states.device)],
            self.position_features[rows.to(self.position_features.device)],
            self.token_mask[rows.to(self.token_mask.device)],
        )

    def copy(self) -> _Features:
        return _Features(
            self.hidden_states.clone(), self.position_features.clone(), self.token_mask.clone()
        )


class StreamingTagger:
    """Tags a growing sequence and refines the newest tags as their right-hand neighbours appear.

    A token's tags depend on the R tokens on either side, R being the classifier's receptive
    field. So each push runs the graph on the last 2R tokens and the new ones, and returns tags
    for the last R tokens and the new ones: those R have their left side whole and may have gained
    neighbours on the right. The tags of the newest R tokens stay provisional until the next push.

    Args:
        tagger: The classifier.
        max_crop_tokens: Newest tokens that may be taken back with nothing lost. After a deeper
            `crop` the next R tokens are tagged with the left side that is still known.

    Raises:
        ValueError: ``max_crop_tokens`` is negative.
    """

    _history: _Features | None
    _num_tokens: int
    _origin: int

    def __init__(self, tagger: RegionTagger, max_crop_tokens: int = MAX_CROP_TOKENS) -> None:
        if max_crop_tokens < 0:
            raise ValueError(f"max_crop_tokens must be 0 or above, got {max_crop_tokens}")
        self.tagger = tagger
        self._radius = tagger.receptive_field
        self._history_tokens = 2 * self._radius + max_crop_tokens
        self.reset()

    @property
    def num_tokens(self) -> int:
        """Tokens pushed so far (padding included), or the length set by `crop` or `reset`."""
        return self._num_tokens

    @property
    def batch_size(self) -> int | None:
        """Rows of the sequence; None before the first push."""
        return None if self._history is None else self._history.token_mask.shape[0]

    def push(
        self, hidden_states: Tensor, position_features: Tensor, token_mask: Tensor | None = None
    ) -> TagUpdate:
        """Tag the next tokens and refine the ones before them.

        Args:
            hidden_states: ``(batch, n, hidden_size)``, any float type; n may be zero.
            position_features: ``(batch, n, num_position_features)``, any float type.
            token_mask: ``(batch, n)``, bool; False marks padding. None means no padding.

        Returns:
            Tags from at most R tokens before the new ones up to the last of them.

        Raises:
            ValueError: A shape does not fit the classifier, the other inputs or the rows so far.
        """
        new = _as_features(hidden_states, position_features, token_mask)
        history = self._history or new.part(0, 0)
        if history.token_mask.shape[0] != new.token_mask.shape[0]:
            raise ValueError(
                f"expected {history.token_mask.shape[0]} rows as in the pushes before, "
                f"got {new.token_mask.shape[0]}; reset the tagger for another batch"
            )
        num_context = min(len(history), 2 * self._radius)
        known = history.follow(new)
        run = known.part(len(history) - num_context, len(known))
        tags = self.tagger.tag(run.hidden_states, run.position_features, run.token_mask)
        num_settled = self._num_settled(num_context)
        update = TagUpdate(
            self._num_tokens - num_context + num_settled,
            Tags(tags.region_probs[:, num_settled:], tags.importance[:, num_settled:]),
        )
        # A copy, so that a short tail does not keep a whole prefill chunk in memory.
        self._history = known.part(max(0, len(known) - self._history_tokens), len(known)).copy()
        self._num_tokens += len(new)
        return update

    def crop(self, num_tokens: int) -> None:
        """Take back all tokens after the first ``num_tokens``.

        Raises:
            ValueError: The number is negative or more than the tokens so far.
        """
        if not 0 <= num_tokens <= self._num_tokens:
            raise ValueError(
                f"num_tokens must be from 0 to the {self._num_tokens} tokens so far, "
                f"got {num_tokens}"
            )
        if self._history is not None:
            num_left = max(0, len(self._history) - (self._num_tokens - num_tokens))
            self._history = self._history.part(0, num_left).copy()
        self._num_tokens = num_tokens
        self._origin = min(self._origin, num_tokens)

    def select_rows(self, rows: Tensor) -> None:
        """Make these rows, in this order, the batch; ``rows`` of shape ``(new_batch,)``, int64."""
        if self._history is not None:
            self._history = self._history.rows(rows)

    def reset(self, num_tokens: int = 0) -> None:
        """Forget everything.

        Args:
            num_tokens: Where the next token stands; tokens before it are taken as unknown.
        """
        self._history = None
        self._num_tokens = self._origin = num_tokens

    def state_dict(self) -> dict[str, Tensor]:
        """Return what is known of the newest tokens, as tensors that `load_state_dict` takes."""
        state = {
            "num_tokens": torch.tensor(self._num_tokens),
            "origin": torch.tensor(self._origin),
        }
        if self._history is not None:
            state |= {
                "hidden_states": self._history.hidden_states,
                "position_features": self._history.position_features,
                "token_mask": self._history.token_mask,
            }
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken.

        Raises:
            KeyError: A part is missing.
        """
        num_tokens, origin = int(state["num_tokens"]), int(state["origin"])
        history = None
        if "hidden_states" in state:
            history = _Features(
                state["hidden_states"], state["position_features"], state["token_mask"]
            )
        self._history, self._num_tokens, self._origin = history, num_tokens, origin

    def _num_settled(self, num_context: int) -> int:
        """Return how many of the context tokens keep the tags that they have."""
        if self._num_tokens - num_context == self._origin:
            return max(0, num_context - self._radius)
        # The first R of the context lack a part of their own left side.
        return min(num_context, self._radius)


def _as_features(
    hidden_states: Tensor, position_features: Tensor, token_mask: Tensor | None
) -> _Features:
    if token_mask is None:
        token_mask = hidden_states.new_ones(hidden_states.shape[:2], dtype=torch.bool)
    return _Features(
        hidden_states.detach().float(), position_features.detach().float(), token_mask.bool()
    )
