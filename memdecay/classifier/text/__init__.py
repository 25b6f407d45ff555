"""What a token's text says beside its hidden state: line kinds, place, the call's words, rules."""

from memdecay.classifier.text.conversation import (
    ConversationText,
    ReadText,
    TextReader,
    read_text,
    reader_behind,
)
from memdecay.classifier.text.memo import TextMemo
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
    "ReadText",
    "TextMemo",
    "TextReader",
    "read_text",
    "reader_behind",
]
