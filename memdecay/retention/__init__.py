"""What to keep, for any engine: region spans, scores, blocks and a retention plan.

Pure functions on numpy arrays; nothing here imports torch, transformers or an engine.
"""

from memdecay.retention.blocks import Reduction, block_scores, select_blocks
from memdecay.retention.plan import PlanConfig, RetentionPlan, TokenRange, plan_retention
from memdecay.retention.scores import ScoreConfig, token_scores, tokens_to_live
from memdecay.retention.spans import RegionSpan, region_spans, token_regions

__all__ = [
    "PlanConfig",
    "Reduction",
    "RegionSpan",
    "RetentionPlan",
    "ScoreConfig",
    "TokenRange",
    "block_scores",
    "plan_retention",
    "region_spans",
    "select_blocks",
    "token_regions",
    "token_scores",
    "tokens_to_live",
]
