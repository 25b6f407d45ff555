"""Digests that name the beginnings of conversations and of token sequences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.messages import ChatMessage

BLOCK_TOKENS = 16


def root_digest(*parts: str) -> bytes:
    """Return the digest from which chains of one owner begin; no other parts give the same."""
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def message_digests(root: bytes, messages: Sequence[ChatMessage]) -> list[bytes]:
    """Return the digest of each beginning of a conversation, that of no messages first."""
    digests = [root]
    for message in messages:
        text = json.dumps(asdict(message), sort_keys=True, default=str)
        digests.append(hashlib.sha256(digests[-1] + text.encode()).digest())
    return digests


def block_digests(root: bytes, token_ids: NDArray[np.int64]) -> list[bytes]:
    """Return the digest of each beginning of whole blocks, one for every `BLOCK_TOKENS` tokens.

    Args:
        root: See `root_digest`.
        token_ids: ``(n,)``, int64.
    """
    digests: list[bytes] = []
    last = root
    for end in range(BLOCK_TOKENS, len(token_ids) + 1, BLOCK_TOKENS):
        block = token_ids[end - BLOCK_TOKENS : end].astype("<i8").tobytes()
        last = hashlib.sha256(last + block).digest()
        digests.append(last)
    return digests
