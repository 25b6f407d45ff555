"""The options that say how tokens get their regions, and the tagger that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.artifact import ClassifierArtifact
from memdecay.classifier.errors import ConfigError
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.region_file import read_region_settings
from memdecay.classifier.region_settings import RegionSettings
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.rule_tagger import RuleTagger
from memdecay.runtime.tagger import RegionTagger
from memdecay.runtime.tagging import SessionTagger

BY_CLASSIFIER = "classifier"
BY_RULES = "rules"

TaggerOption = Annotated[
    str,
    typer.Option(
        "--tagger",
        help=f"What finds the regions: [bold]{BY_CLASSIFIER}[/bold] (give --classifier) or "
        f"[bold]{BY_RULES}[/bold] (needs no training).",
    ),
]
RegionsOption = Annotated[
    Path | None,
    typer.Option(
        "--regions",
        help="Scores and decay of the regions (TOML), as `memdecay calibrate-decay` writes them.",
        rich_help_panel="Cache",
    ),
]


def check_tagger(tagger: str, classifier: Path | None, regions: Path | None) -> None:
    """Refuse options that don't fit each other.

    Raises:
        ConfigError: The tagger is unknown, or the other options ask for another one or for none.
    """
    if tagger not in (BY_CLASSIFIER, BY_RULES):
        raise ConfigError(f"unknown tagger {tagger!r}; expected {BY_CLASSIFIER} or {BY_RULES}")
    if tagger == BY_RULES and classifier is not None:
        raise ConfigError(f"--tagger {BY_RULES} needs no classifier; leave --classifier out")
    if tagger == BY_CLASSIFIER and classifier is None and regions is not None:
        raise ConfigError(
            f"--regions says how regions fade, but no token has one; add --classifier or "
            f"--tagger {BY_RULES}"
        )


def load_regions(path: Path | None) -> RegionSettings | None:
    """Read the file of region settings that was given, if one was.

    Raises:
        ConfigError: It can't be read as one.
    """
    return None if path is None else read_region_settings(path)


def apply_regions(config: CacheConfig, settings: RegionSettings | None) -> CacheConfig:
    """Return a cache's configuration with the settings, if there are any."""
    return config if settings is None else config.with_regions(settings)


def make_tagger(
    tagger: str,
    artifact: ClassifierArtifact | None,
    settings: RegionSettings | None,
    llm: LanguageModel,
) -> SessionTagger | None:
    """Return the tagger that was asked for, None where tokens are to have no region.

    Args:
        tagger: One that `check_tagger` let pass.
        artifact: The classifier; None if none was given.
        settings: Scores and decay in place of the tagger's own.
        llm: The language model.

    Raises:
        ArtifactError: ONNX Runtime cannot open the classifier.
    """
    table = None if settings is None else settings.table
    if tagger == BY_RULES:
        return RuleTagger(table)
    return None if artifact is None else RegionTagger(artifact, llm.device.type, table)
