"""WebVoyager runs: a bare message list in which screenshots are left out."""

from __future__ import annotations

from memdecay.data.formats.base import CERTAIN, NO, Format
from memdecay.data.formats.content import content_text
from memdecay.data.formats.readers import openai_chat
from memdecay.data.formats.report import Notes
from memdecay.data.formats.sample import Sample

_MARKS = ("Observation: please analyze the attached screenshot", "robot browsing the web")


def score(sample: Sample) -> int:
    """Tell a message list by the words of WebVoyager's prompts."""
    for record in sample.records()[:4]:
        text = content_text(record.get("content"), Notes())
        if "role" in record and any(mark in text for mark in _MARKS):
            return CERTAIN
    return NO


FORMAT = Format("webvoyager", "WebVoyager run", score, openai_chat.read)
