"""What a classifier has to beat: position and role alone, and rules without any training."""

from memdecay.training.baselines.compare import (
    POSITION,
    RULES,
    measure_baselines,
    rule_probs,
)
from memdecay.training.baselines.position import PositionBaseline, fit_position_baseline
from memdecay.training.baselines.rules import RuleRegions, rule_regions

__all__ = [
    "POSITION",
    "RULES",
    "PositionBaseline",
    "RuleRegions",
    "fit_position_baseline",
    "measure_baselines",
    "rule_probs",
    "rule_regions",
]
