"""How each region is scored, shared out and stored."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from memdecay.classifier.regions import NUM_REGIONS, Region, RegionTable

BIT_WIDTHS = (2, 3, 4, 8, 16)
"""Bits that a kept number may be stored with, the coarsest first."""


DEFAULT_TEMPLATE_WEIGHT = 1.5
"""Models lean on the marks between messages, however few tokens attend to them at a time."""


@dataclass(frozen=True, slots=True)
class RegionSettings:
    """How each region's tokens are scored, shared out and stored; tuples in `Region`'s order.

    Attributes:
        table: Initial score and decay factor of every region.
        weights: Added to the logarithm of a token's retention score.
        max_shares: Largest share of the kept tokens, of their bytes where tokens differ in
            precision, while other regions want the room, above 0 and at most 1; None leaves it to
            the cache's own configuration.
        min_shares: Share of the room beside the protected tokens that the region may count on, 0
            to 1.
        min_bits: Bits below which a kept token's keys and values are never stored; 2, the least
            there is, binds nothing.
        template_weight: What the chat template's own tokens get in place of their region's weight.
        prior_weight: Exponent of the decayed score against the attention that a token gets, 0 or
            above; None leaves it to the cache's own configuration.
        model: The language model that the settings were measured with; empty if unknown.
        made_by: What wrote them; empty if unknown.
    """

    table: RegionTable = field(default_factory=RegionTable)
    weights: tuple[float, ...] = (0.0,) * NUM_REGIONS
    max_shares: tuple[float | None, ...] = (None,) * NUM_REGIONS
    min_shares: tuple[float, ...] = (0.0,) * NUM_REGIONS
    min_bits: tuple[int, ...] = (BIT_WIDTHS[0],) * NUM_REGIONS
    template_weight: float = DEFAULT_TEMPLATE_WEIGHT
    prior_weight: float | None = None
    model: str = ""
    made_by: str = ""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A tuple has not one value a region, a value is out of its range, a floor
                stands above its cap, or the floors add up to more than all tokens.
        """
        for name in ("weights", "max_shares", "min_shares", "min_bits"):
            if len(getattr(self, name)) != NUM_REGIONS:
                raise ValueError(
                    f"{name} needs {NUM_REGIONS} values, one a region, "
                    f"got {len(getattr(self, name))}"
                )
        for region in Region:
            self._check(region)
        if not math.isfinite(self.template_weight):
            raise ValueError(f"template_weight must be finite, got {self.template_weight}")
        prior = self.prior_weight
        if prior is not None and not (math.isfinite(prior) and prior >= 0):
            raise ValueError(f"prior_weight must be 0 or above, got {prior}")
        if sum(self.min_shares) > 1:
            raise ValueError(
                f"the min_share of all regions add up to {sum(self.min_shares):g}, expected at "
                "most 1"
            )

    def _check(self, region: Region) -> None:
        weight, floor = self.weights[region], self.min_shares[region]
        cap, bits = self.max_shares[region], self.min_bits[region]
        if not math.isfinite(weight):
            raise ValueError(f"weight of {region.label} must be finite, got {weight}")
        if not 0 <= floor <= 1:
            raise ValueError(f"min_share of {region.label} must be from 0 to 1, got {floor}")
        if cap is not None and not 0 < cap <= 1:
            raise ValueError(
                f"max_share of {region.label} must be above 0 and at most 1, got {cap}"
            )
        if cap is not None and floor > cap:
            raise ValueError(
                f"min_share of {region.label}, {floor}, stands above its max_share, {cap}"
            )
        if bits not in BIT_WIDTHS:
            raise ValueError(f"min_bits of {region.label} must be one of {BIT_WIDTHS}, got {bits}")

    def shares_within(self, default: float) -> tuple[float, ...]:
        """Return every region's largest share, with a default where the settings name none."""
        return tuple(default if share is None else share for share in self.max_shares)
