"""A session as plain data, for its record on disk."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.text import NUM_TEXT_FEATURES
from memdecay.runtime.transcript import TokenTable, Transcript
from memdecay.serving.engine.sessions.disk import SessionFolder, StoredFile
from memdecay.serving.engine.sessions.session import MemoryFacts, ServedSession
from memdecay.serving.engine.sessions.store import SessionStore
from memdecay.serving.engine.views import SessionSnapshot

logger = logging.getLogger(__name__)


def load_stored(folder: SessionFolder, store: SessionStore) -> None:
    """Make the sessions of an earlier run known; what can't be read is deleted."""
    for stored, body in folder.scan():
        try:
            store.add(from_record(body, stored))
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("%s does not fit and is deleted (%s)", stored.record.name, error)
            folder.remove(stored)


_RUN_AGAIN_TOKENS = 64
"""Newest tokens that may have to be run again without being rendered again."""


def to_record(session: ServedSession) -> dict[str, Any]:
    """Return all of a session but its memory."""
    tokens = session.transcript.tokens
    return {
        "tenant": session.tenant,
        "session_id": session.session_id,
        "is_named": session.is_named,
        "salt": session.salt,
        "created_at": session.created_at,
        "last_used_at": session.last_used_at,
        "num_turns": session.num_turns,
        "digest": None if session.digest is None else session.digest.hex(),
        "facts": asdict(session.facts),
        "history": [asdict(snapshot) for snapshot in session.history],
        "transcript": {
            "text": session.transcript.text,
            "reply_start": session.transcript.reply_start,
            "input_ids": tokens.input_ids.tolist(),
            "message_index": tokens.message_index.tolist(),
            "position_in_message": tokens.position_in_message.tolist(),
            "role": tokens.role.tolist(),
            "text_features": tokens.text[_first_needed(session) :].tolist(),
        },
    }


def from_record(body: Mapping[str, Any], stored: StoredFile) -> ServedSession:
    """Return the session that `to_record` described, its memory on disk.

    Raises:
        KeyError: A field is missing.
        TypeError: A field is of another type.
        ValueError: A field has no value that fits.
    """
    transcript = body["transcript"]
    tokens = TokenTable(
        np.array(transcript["input_ids"], np.int64),
        np.array(transcript["message_index"], np.int32),
        np.array(transcript["position_in_message"], np.int32),
        np.array(transcript["role"], np.int8),
        _text_features(transcript),
    )
    digest = body["digest"]
    return ServedSession(
        tenant=body["tenant"],
        session_id=body["session_id"],
        is_named=body["is_named"],
        salt=body["salt"],
        created_at=body["created_at"],
        last_used_at=body["last_used_at"],
        transcript=Transcript(tokens, transcript["text"], transcript["reply_start"]),
        digest=None if digest is None else bytes.fromhex(digest),
        stored=stored,
        saved_bytes=stored.size_bytes,
        num_turns=body["num_turns"],
        facts=MemoryFacts(**body["facts"]),
        history=[SessionSnapshot(**snapshot) for snapshot in body["history"]],
    )


def _first_needed(session: ServedSession) -> int:
    """Return the first token whose text features may still be read; there are many of them."""
    return max(0, session.facts.tokens_seen - _RUN_AGAIN_TOKENS)


def _text_features(transcript: Mapping[str, Any]) -> NDArray[np.float16]:
    """Return the features of all tokens, zeros for those that are not read again."""
    newest = np.array(transcript["text_features"], np.float16).reshape(-1, NUM_TEXT_FEATURES)
    features = np.zeros((len(transcript["input_ids"]), NUM_TEXT_FEATURES), np.float16)
    features[len(features) - len(newest) :] = newest
    return features
