"""What a forward is called with, for models before and after the argument was renamed."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from memdecay.runtime.forward_call import ForwardCall
from tests.tiny import tiny_llama


class Old(nn.Module):
    """Takes the argument's old name and no number of logits."""

    def forward(self, input_ids: Any, past_key_values: Any = None, use_cache: bool = False) -> None:
        """Do nothing."""


def test_the_renamed_argument_is_found() -> None:
    call = ForwardCall.of(tiny_llama())
    assert call == ForwardCall("cache", takes_logits_to_keep=True)
    assert call.options("c", 1) == {"cache": "c", "use_cache": True, "logits_to_keep": 1}


@pytest.mark.parametrize("logits_to_keep", [None, 0, 1])
def test_a_model_that_cannot_be_told_is_not_told(logits_to_keep: int | None) -> None:
    options = ForwardCall.of(Old()).options("c", logits_to_keep)
    assert options == {"past_key_values": "c", "use_cache": True}


def test_all_logits_are_asked_for_by_zero_and_nothing_by_none() -> None:
    call = ForwardCall("cache", takes_logits_to_keep=True)
    assert call.options("c", 0)["logits_to_keep"] == 0
    assert "logits_to_keep" not in call.options("c")
