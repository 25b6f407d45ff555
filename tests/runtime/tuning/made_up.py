"""Evidence that a planted table would give, and judges that like some settings best."""

from __future__ import annotations

import numpy as np

from memdecay.classifier.regions import NUM_REGIONS, Region, RegionDecay, RegionTable
from memdecay.runtime.tuning.evidence import Evidence
from memdecay.runtime.tuning.stage import TunedMoment

PLANTED = RegionTable(
    RegionDecay(2.0, 0.0),
    RegionDecay(8.0, 0.002),
    RegionDecay(5.0, 0.0005),
    RegionDecay(0.5, 0.001),
    RegionDecay(1.0, 0.0015),
)
MOMENTS = (
    TunedMoment("a1", "a", 0, False),
    TunedMoment("a2", "a", 0, False),
    TunedMoment("b1", "b", 1, False),
    TunedMoment("c1", "c", 2, True),
    TunedMoment("d1", "d", 3, True),
)


def made_up(
    seed: int,
    planted: RegionTable = PLANTED,
    regions: tuple[Region, ...] = tuple(Region),
    num_template: int = 300,
    num_tokens: int = 4000,
) -> Evidence:
    """Return tokens that were attended to as a table says, to the power of a quarter."""
    random = np.random.default_rng(seed)
    region = random.choice(regions, num_tokens)
    ages = random.integers(128, 4000, num_tokens).astype(np.float32)
    is_template = np.arange(num_tokens) < num_template
    scores, decays = np.array(planted.initial_scores), np.array(planted.decays)
    use = 0.25 * (np.log(scores[region]) - decays[region] * ages)
    # What the template's tokens get must tell nothing of their regions.
    use[is_template] = 3.0 - 0.004 * ages[is_template]
    use += random.normal(0, 0.05, num_tokens)
    probs = np.eye(NUM_REGIONS, dtype=np.float32)[region]
    return Evidence(probs, is_template, ages, (use - use.mean()).astype(np.float32))
