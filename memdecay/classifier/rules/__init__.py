"""Regions by rules, without any training: small voters over one conversation."""

from memdecay.classifier.rules.growing import GrowingLabels
from memdecay.classifier.rules.registry import DEFAULT_RULES
from memdecay.classifier.rules.rule import Proposal, Rule
from memdecay.classifier.rules.tagger import RuleVotes, rule_labels, rule_votes

__all__ = [
    "DEFAULT_RULES",
    "GrowingLabels",
    "Proposal",
    "Rule",
    "RuleVotes",
    "rule_labels",
    "rule_votes",
]
