"""The settings of the evicting cache and of its attention feedback."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from memdecay.classifier.errors import BudgetError
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.runtime.early_config import EarlyConfig
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.precision.tiers import TIER_BITS

STORAGE_DTYPES = ("float32", "bfloat16", "float16")
PACKAGED: Final = "packaged"


@dataclass(frozen=True, slots=True)
class FeedbackConfig:
    """How attention is watched and what it weighs in the memdecay policy.

    Attributes:
        layers: Indices of the watched layers; empty takes the full-attention layers at half and
            three quarters of the depth.
        observe_every_tokens: Tokens between two observations while decoding.
        window_queries: Queries at the end of a prefill chunk whose attention is observed.
        half_life_tokens: Tokens after which an observation weighs half in the average.
        prior_weight: Exponent of the region's decayed score. 0 ranks by attention alone; at 1 the
            region formula has its full range (1 to 100), which drowns the attention.
        attention_floor: What a token without any attention scores, as a share of its row's mean.
        pool_width: Neighbouring slots whose attention is averaged, odd; 1 pools nothing. Words of
            several tokens stay whole that way.
        visit_strength: How much attention slows a token's decay, see `visited_decay`; 0 for not.
        rate_strength: How much a flood of tokens slows decay, see `adapted_decay`; 0 for not.
        rate_reference_tokens: Tokens a forward above which that begins.
    """

    layers: tuple[int, ...] = ()
    observe_every_tokens: int = 4
    window_queries: int = 32
    half_life_tokens: float = 128.0
    prior_weight: float = 0.25
    attention_floor: float = 0.05
    pool_width: int = 5
    visit_strength: float = 0.0
    rate_strength: float = 0.0
    rate_reference_tokens: float = 32.0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        for name in ("observe_every_tokens", "window_queries", "pool_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if self.pool_width % 2 == 0:
            raise ValueError(f"pool_width must be odd, got {self.pool_width}")
        for name in ("half_life_tokens", "attention_floor", "rate_reference_tokens"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be above 0, got {value}")
        for name in ("prior_weight", "visit_strength", "rate_strength"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be 0 or above, got {value}")


@dataclass(frozen=True, slots=True)
class LateTaggingConfig:
    """How tokens that later ones keep attending to become key decisions.

    Attributes:
        max_share: Share of the budget that such tokens may be at one time; 0 turns it off.
        min_attention: Attention, over the mean of the row, that a token must get for it.
        min_age_tokens: Age from which it counts: attention by near neighbours says little.
    """

    max_share: float = 0.0
    min_attention: float = 4.0
    min_age_tokens: int = 256

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if not 0 <= self.max_share < 1:
            raise ValueError(f"max_share must be from 0 to below 1, got {self.max_share}")
        if not (math.isfinite(self.min_attention) and self.min_attention > 0):
            raise ValueError(f"min_attention must be above 0, got {self.min_attention}")
        if self.min_age_tokens < 1:
            raise ValueError(f"min_age_tokens must be 1 or more, got {self.min_age_tokens}")


@dataclass(frozen=True, slots=True)
class FadingConfig:
    """How tokens lose precision before they are forgotten.

    Attributes:
        steps: Bits of the steps below full precision, of 8, 4 and 2; empty forgets at once.
        worth_exponent: Power of a token's score that its errors weigh with. 2 follows from errors
            that add up in squares; less spreads the bytes more evenly.
        num_exact: Newest tokens that stay at full precision, as sinks do; only those can be taken
            back.
        min_recent_bits: Bits below which the other recent tokens do not fall.
        room_share: Share of the budget that is kept free for new tokens, so that the next ones
            come in without another eviction.
        staging_share: Share of the budget set aside for tokens that are packed ahead of a move, a
            few layers a step, so that no step pays for all; 0 packs them in the step that needs
            the room.
    """

    steps: tuple[int, ...] = (4, 2)
    worth_exponent: float = 1.0
    num_exact: int = 32
    min_recent_bits: int = 4
    room_share: float = 0.06
    staging_share: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if set(self.steps) - set(TIER_BITS) or len(set(self.steps)) < len(self.steps):
            raise ValueError(f"steps must be different ones of {TIER_BITS}, got {self.steps}")
        if not (math.isfinite(self.worth_exponent) and self.worth_exponent > 0):
            raise ValueError(f"worth_exponent must be above 0, got {self.worth_exponent}")
        if self.num_exact < 0:
            raise ValueError(f"num_exact must be 0 or more, got {self.num_exact}")
        if not 0 < self.room_share < 1:
            raise ValueError(f"room_share must be above 0 and below 1, got {self.room_share}")
        if not 0 <= self.staging_share < 1:
            raise ValueError(f"staging_share must be from 0 to below 1, got {self.staging_share}")


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """How many tokens the cache keeps and which of them it protects.

    Attributes:
        budget_tokens: Tokens at full precision that the cache has room for. Its bytes never
            exceed theirs; a policy that fades keeps more tokens in them.
        high_watermark: Share of the budget above which eviction starts, above 0, at most 1.
        low_watermark: Share of the budget that eviction goes down to, below the high watermark,
            but never below the protected tokens.
        num_sinks: First real tokens of every row that are never evicted. Models lean on them
            whatever they say.
        num_recent: Newest tokens that are never evicted. The default of 128 covers the sentence
            being written, the tokens whose tags are still being refined and the candidates
            that assisted decoding may take back.
        max_region_share: Largest share of the kept tokens for any region, above 0, at most 1; it
            binds only while other regions have tokens that want the room.
        max_share_per_region: One share for each region in the order of `Region`, in place of
            ``max_region_share``.
        policy: Name of the eviction policy, see `memdecay.runtime.policies.POLICIES`.
        attention_feedback: Whether a policy that uses attention may watch it.
        feedback: How it is watched and weighed.
        fading: How tokens lose precision, for a policy that fades.
        storage_dtype: Dtype of what is kept at full precision, ``float32``, ``bfloat16`` or
            ``float16``; None takes the model's.
        block_tokens: Neighbouring tokens that are forgotten together as far as their guards allow,
            for engines that keep whole blocks; 1 takes each token by itself.
        late_tagging: How attention makes tokens key decisions.
        early: Which tokens go before the high watermark is reached.
        regions: What each region weighs, its floor and cap where tokens fade, and its floor of
            precision. Its table plays no part here: scores and decay come with the tags. Set it
            by `with_regions`, which brings the other fields in line.
        foresight: Foresees a token's use from its keys and values, for the policies ``memdecay``
            and ``learned``; ``packaged`` takes the head that comes with the package, where there
            is one for the model, and None goes by attention alone, which ``learned`` can't.
    """

    budget_tokens: int
    high_watermark: float = 1.0
    low_watermark: float = 0.9
    num_sinks: int = 4
    num_recent: int = 128
    max_region_share: float = 0.5
    max_share_per_region: tuple[float, ...] | None = None
    policy: str = "memdecay"
    attention_feedback: bool = True
    feedback: FeedbackConfig = field(default_factory=FeedbackConfig)
    fading: FadingConfig = field(default_factory=FadingConfig)
    storage_dtype: str | None = None
    block_tokens: int = 1
    late_tagging: LateTaggingConfig = field(default_factory=LateTaggingConfig)
    early: EarlyConfig = field(default_factory=EarlyConfig)
    regions: RegionSettings = field(default_factory=RegionSettings)
    foresight: ForesightHead | Literal["packaged"] | None = PACKAGED

    def __post_init__(self) -> None:
        """Check the ranges and that the budget holds what it must.

        Raises:
            ValueError: A value is out of its range.
            BudgetError: The budget can't hold the protected tokens and at least one more.
        """
        for name in ("budget_tokens", "block_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in ("num_sinks", "num_recent"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.storage_dtype not in (None, *STORAGE_DTYPES):
            raise ValueError(
                f"storage_dtype must be one of {STORAGE_DTYPES}, got {self.storage_dtype!r}"
            )
        self._check_watermarks()
        self._check_shares()
        self._check_room()

    def with_regions(self, settings: RegionSettings) -> CacheConfig:
        """Return this configuration with settings of the regions, for eviction and fading alike."""
        shares = self.max_share_per_region
        if any(share is not None for share in settings.max_shares):
            shares = settings.shares_within(self.max_region_share)
        feedback = self.feedback
        if settings.prior_weight is not None:
            feedback = replace(feedback, prior_weight=settings.prior_weight)
        return replace(self, regions=settings, max_share_per_region=shares, feedback=feedback)

    @property
    def foresight_head(self) -> ForesightHead | None:
        """The head, once it is known which."""
        return self.foresight if isinstance(self.foresight, ForesightHead) else None

    @property
    def num_protected(self) -> int:
        """Tokens of a row that are never evicted: sinks and the newest."""
        return self.num_sinks + self.num_recent

    @property
    def high_tokens(self) -> int:
        """Most tokens kept between two forwards."""
        return int(round(self.high_watermark * self.budget_tokens, 6))

    @property
    def low_tokens(self) -> int:
        """Tokens left after an eviction."""
        return max(int(round(self.low_watermark * self.budget_tokens, 6)), self.num_protected)

    @property
    def max_chunk_tokens(self) -> int:
        """Most tokens one forward may bring without the buffers having to grow."""
        return self.budget_tokens - self.num_protected

    @property
    def fading_room_tokens(self) -> int:
        """Tokens for which fading makes room at once."""
        most = self.budget_tokens - self.num_protected
        return max(1, min(most, round(self.fading.room_share * self.budget_tokens)))

    @property
    def region_shares(self) -> tuple[float, ...]:
        """Largest share of every region, in the order of `Region`."""
        return self.max_share_per_region or (self.max_region_share,) * NUM_REGIONS

    def _check_watermarks(self) -> None:
        if not 0 < self.low_watermark < self.high_watermark <= 1:
            raise ValueError(
                "the watermarks must be 0 < low_watermark < high_watermark <= 1, got "
                f"{self.low_watermark} and {self.high_watermark}"
            )

    def _check_shares(self) -> None:
        shares = self.region_shares
        if len(shares) != NUM_REGIONS:
            raise ValueError(
                f"max_share_per_region needs {NUM_REGIONS} shares, one a region, got {len(shares)}"
            )
        if not all(0 < share <= 1 for share in shares):
            raise ValueError(f"a region's share must be above 0 and at most 1, got {shares}")

    def _check_room(self) -> None:
        protected = f"{self.num_protected} protected tokens"
        parts = f"{self.num_sinks} sinks and {self.num_recent} recent"
        if self.num_protected >= self.budget_tokens:
            raise BudgetError(
                f"a budget of {self.budget_tokens} tokens has no room beside the {protected} "
                f"({parts}); raise budget_tokens or lower num_recent"
            )
        if self.low_tokens >= self.high_tokens:
            raise BudgetError(
                f"eviction would start above {self.high_tokens} tokens but must keep "
                f"{self.low_tokens} ({parts}, low watermark {self.low_watermark}), which leaves no "
                "room; raise budget_tokens, or lower low_watermark or num_recent"
            )
