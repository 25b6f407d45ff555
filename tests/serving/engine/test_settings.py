"""What settings and requests must be like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memdecay.runtime.bench.caches.gold import GoldTagger
from memdecay.serving.engine.config import EngineConfig
from memdecay.serving.engine.model.runner import ModelRunner
from memdecay.serving.engine.request import GenerationRequest
from tests.serving.engine.rig import cache_config, rig, tiny_llm, user


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "either messages or a prompt"),
        ({"messages": (user("Hi"),), "prompt": "Hi"}, "either messages or a prompt"),
        ({"prompt": ""}, "at least one character or token"),
        ({"prompt": "Hi", "max_tokens": 0}, "max_tokens must be 1 or more"),
        ({"prompt": "Hi", "stop": ("",)}, "at least one character, got an empty one"),
        ({"prompt": "Hi", "session_id": ""}, "session_id must not be empty"),
        ({"messages": (user("Hi"),), "pins": (1,)}, "messages from 0 to 0, got 1"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        GenerationRequest(tenant="ann", **options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chunk_tokens", 0),
        ("max_running", 0),
        ("cpu_memory_bytes", -1),
        ("kv_memory_bytes", 0),
        ("session_ttl_s", 0.0),
    ],
)
def test_a_setting_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        EngineConfig(cache=cache_config(), **{name: value})


def test_a_forward_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="run takes one row, or several of one token"):
        ModelRunner(tiny_llm(), None).run([])


def test_a_tagger_whose_tags_cannot_be_saved_is_refused() -> None:
    tagger = GoldTagger(np.zeros(4, np.int8))
    with pytest.raises(TypeError, match="got a GoldTagger"), rig(tiny_llm(), tagger):  # type: ignore[arg-type]
        pass
