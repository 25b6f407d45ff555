"""The baselines measured on the tokens that the classifier is measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.baselines.position import fit_position_baseline
from memdecay.training.baselines.rules import RuleRegions
from memdecay.training.chunks import UNLABELLED, WindowSource
from memdecay.training.metrics import RegionMetrics, region_metrics

POSITION = "position and role only"
RULES = "rules"


def measure_baselines(
    source: WindowSource,
    train: Sequence[int],
    test: Sequence[int],
    rules: RuleRegions | None,
    seed: int = 0,
) -> Mapping[str, RegionMetrics]:
    """Fit what has to be fitted and measure every baseline on the test windows.

    Args:
        source: All windows.
        train: Window indices to fit on.
        test: Window indices to measure on.
        rules: The rule tagger's regions by window; None leaves that baseline out.
        seed: Seed of the fit.

    Returns:
        Figures by `POSITION` and `RULES`.

    Raises:
        ValueError: The training or the test windows have no labelled token.
    """
    probs, labels = fit_position_baseline(source, train, seed).region_probs(source, test)
    figures = {POSITION: region_metrics(probs, labels)}
    if rules is not None:
        figures[RULES] = region_metrics(rule_probs(source, test, rules), labels)
    return figures


def rule_probs(source: WindowSource, indices: Sequence[int], rules: RuleRegions) -> Tensor:
    """Return the rule tagger's regions of the labelled tokens as certainties.

    Returns:
        ``(tokens, num_regions)``, float32, one-hot.
    """
    regions = [np.zeros(0, np.int8)]
    regions += [rules[index][source.window(index).labels != UNLABELLED] for index in indices]
    chosen = torch.from_numpy(np.concatenate(regions).astype(np.int64))
    return functional.one_hot(chosen, NUM_REGIONS).to(torch.float32)
