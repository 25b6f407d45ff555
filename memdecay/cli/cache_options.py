"""Options of the cache that every command which makes one takes alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.config import PACKAGED, CacheConfig
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.foresight.head_file import load_head
from memdecay.runtime.foresight.packaged import packaged_head
from memdecay.runtime.policies import make_policy

NO_FORESIGHT = "none"
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
EarlyWatermarkOption = Annotated[
    float,
    typer.Option(
        "--early-watermark",
        help="Share of the budget above which tokens that score far below the threshold go before "
        "there is need; 1 for none.",
        rich_help_panel=_PANEL,
    ),
]
EarlyMarginOption = Annotated[
    float,
    typer.Option(
        "--early-margin",
        help="Share of the threshold's score below which a token is far below it.",
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

ForesightOption = Annotated[
    str,
    typer.Option(
        "--foresight",
        help="What foresees a token's use from its keys and values: "
        f"[bold]{PACKAGED}[/bold] for the head that comes with the embedded model, a file of "
        f"`memdecay foresee`, or [bold]{NO_FORESIGHT}[/bold] to go by attention alone, which "
        "the policy learned can't do.",
        rich_help_panel=_PANEL,
    ),
]


def find_foresight(choice: str, model: str) -> ForesightHead | None:
    """Return the head that was chosen, None for none, before the language model is loaded.

    Args:
        choice: `PACKAGED`, `NO_FORESIGHT` or a file, which may be for another model.
        model: The language model's name.

    Raises:
        ArtifactError: The file is no head.
    """
    if choice == NO_FORESIGHT:
        return None
    return packaged_head(model) if choice == PACKAGED else load_head(Path(choice))


def check_policy(config: CacheConfig, choice: str, model: str) -> None:
    """Refuse a policy that can't be had, before the language model is loaded.

    Args:
        config: Names the policy.
        choice: See `find_foresight`.
        model: The language model's name.

    Raises:
        ArtifactError: The file is no head.
        ConfigError: The policy is unknown, or needs a foresight head that is not there.
    """
    make_policy(replace(config, foresight=find_foresight(choice, model)))


def load_foresight(choice: str, llm: LanguageModel) -> ForesightHead | None:
    """Return the head that was chosen, None for none.

    Args:
        choice: See `find_foresight`.
        llm: The language model.

    Raises:
        ArtifactError: The file is no head, or one for another language model.
    """
    head = find_foresight(choice, llm.name)
    if head is None or choice == PACKAGED:
        return head
    if head.model != llm_fingerprint(llm.model):
        raise ArtifactError(
            f"{choice} was made for another language model than {llm.name}; make one with "
            f"`memdecay foresee --model {llm.name}`, or give --foresight {NO_FORESIGHT}"
        )
    return head


def with_cache_options(
    config: CacheConfig,
    block_tokens: int,
    late_tagging: float,
    pack_ahead: float,
    early: tuple[float, float],
) -> CacheConfig:
    """Return a configuration with these options.

    Args:
        config: What they are added to.
        block_tokens: Tokens that are forgotten together.
        late_tagging: Share of the budget for late key decisions.
        pack_ahead: Share of the budget for packing ahead.
        early: The early watermark and its margin.

    Raises:
        ValueError: One is out of its range.
    """
    return replace(
        config,
        block_tokens=block_tokens,
        early=replace(config.early, watermark=early[0], margin=early[1]),
        late_tagging=replace(config.late_tagging, max_share=late_tagging),
        fading=replace(config.fading, staging_share=pack_ahead),
    )
