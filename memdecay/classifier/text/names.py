"""The names of the text features, in their order."""

from __future__ import annotations

from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.rules.registry import DEFAULT_RULES
from memdecay.classifier.text.lines import LINE_FEATURE_NAMES
from memdecay.classifier.text.places import PLACE_FEATURE_NAMES

TEXT_FEATURE_NAMES = (
    *(f"rules_{label}" for label in REGION_LABELS),
    *(f"rule_{rule.name}" for rule in DEFAULT_RULES),
    *PLACE_FEATURE_NAMES,
    *LINE_FEATURE_NAMES,
    "is_structured_call",
)
NUM_TEXT_FEATURES = len(TEXT_FEATURE_NAMES)

RULE_SCORES_START = 0
"""Where the rules' scores of the regions begin; there are as many as regions."""
