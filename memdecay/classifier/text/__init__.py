"""What a token's text says beside its hidden state: line kinds, place, the call's words, rules."""

from memdecay.classifier.text.conversation import ConversationText, TextReader, read_text
from memdecay.classifier.text.names import (
    NUM_TEXT_FEATURES,
    RULE_SCORES_START,
    TEXT_FEATURE_NAMES,
)

__all__ = [
    "NUM_TEXT_FEATURES",
    "RULE_SCORES_START",
    "TEXT_FEATURE_NAMES",
    "ConversationText",
    "TextReader",
    "read_text",
]
