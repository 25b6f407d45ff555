"""Options of the cache that every command which makes one takes alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from memdecay.runtime.config import CacheConfig

_PANEL = "Cache"

BlockTokensOption = Annotated[
    int,
    typer.Option(
        "--block-tokens",
        help="Neighbouring tokens that are forgotten together; 1 for each by itself.",
        rich_help_panel=_PANEL,
    ),
]
LateTaggingOption = Annotated[
    float,
    typer.Option(
        "--late-tagging",
        help="Share of the budget for tokens that become key decisions because later ones keep "
        "attending to them; 0 for none.",
        rich_help_panel=_PANEL,
    ),
]
PackAheadOption = Annotated[
    float,
    typer.Option(
        "--pack-ahead",
        help="Share of the budget set aside for packing fading tokens a few layers a step, so that "
        "no step is slow; 0 packs them at once.",
        rich_help_panel=_PANEL,
    ),
]


def with_cache_options(
    config: CacheConfig, block_tokens: int, late_tagging: float, pack_ahead: float
) -> CacheConfig:
    """Return a configuration with these options.

    Raises:
        ValueError: One is out of its range.
    """
    return replace(
        config,
        block_tokens=block_tokens,
        late_tagging=replace(config.late_tagging, max_share=late_tagging),
        fading=replace(config.fading, staging_share=pack_ahead),
    )
