"""Short hashes by which equal and nearly equal texts find each other."""

from __future__ import annotations

import hashlib
import re

from memdecay.data.spill import text_key
from memdecay.data.trace import Trace

SHINGLE_WORDS = 8
SAMPLE_SHARE = 8
MIN_LONG_CHARS = 400
MIN_OPENING_CHARS = 40

_WORD = re.compile(r"\w+")


def text_digest(text: str) -> bytes:
    """Return 16 bytes that stand for a text, whatever its case and white space."""
    return text_key(" ".join(text.lower().split()))


def prefix_digests(trace: Trace) -> list[bytes]:
    """Return a digest for each beginning of a trace: its first message, the first two, and so on.

    The last one stands for the whole trace.
    """
    chain = hashlib.blake2b(digest_size=16)
    digests = []
    for message in trace.messages:
        body = f"{message.role}\0{message.content}\0{message.tool_calls!r}\0"
        chain.update(body.encode("utf-8", "surrogatepass"))
        digests.append(chain.digest())
    return digests


def opening(trace: Trace) -> str:
    """Return the first user message, empty if it is too short to tell one task from another."""
    texts = (message.content for message in trace.messages if message.role in ("user", "human"))
    text = next(texts, "")
    return text if len(text) >= MIN_OPENING_CHARS else ""


def long_texts(trace: Trace) -> list[str]:
    """Return the long messages that are not instructions, which many traces rightly share."""
    return [
        message.content
        for message in trace.messages
        if len(message.content) >= MIN_LONG_CHARS and message.role not in ("system", "developer")
    ]


def shingle_sample(text: str) -> set[bytes]:
    """Return hashes of a fixed share of a text's runs of `SHINGLE_WORDS` words.

    The share is chosen by the hashes, so that two texts keep the same runs.
    """
    words = _WORD.findall(text.lower())
    hashes = set()
    for place in range(len(words) - SHINGLE_WORDS + 1):
        run = " ".join(words[place : place + SHINGLE_WORDS])
        digest = hashlib.blake2b(run.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if digest[-1] % SAMPLE_SHARE == 0:
            hashes.add(digest)
    return hashes
