"""SWE-smith fine-tuning data: calls as XML in the assistant's text, kept as they are."""

from __future__ import annotations

from memdecay.data.formats.base import CERTAIN, NO, Format
from memdecay.data.formats.readers import openai_chat
from memdecay.data.formats.sample import Sample
from memdecay.data.formats.values import as_str, maps


def score(sample: Sample) -> int:
    """Tell message lists with an instance id and calls such as ``<function=bash>``."""
    for record in sample.records():
        texts = (as_str(turn.get("content")) for turn in maps(record.get("messages")))
        if "instance_id" in record and any("<function=" in text for text in texts):
            return CERTAIN
    return NO


FORMAT = Format("swe-smith", "SWE-smith XML calls", score, openai_chat.read)
