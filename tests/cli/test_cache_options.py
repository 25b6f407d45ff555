"""Options of the cache that run and serve share."""

from __future__ import annotations

from pathlib import Path

import pytest

from memdecay.cli.cache_options import with_cache_options
from memdecay.runtime.config import CacheConfig
from tests.cli.conftest import RunCommand


def test_options_land_in_the_configuration() -> None:
    config = with_cache_options(CacheConfig(512), 16, 0.05, 0.03, (0.5, 0.25))

    assert config.block_tokens == 16
    assert config.late_tagging.max_share == 0.05
    assert config.fading.staging_share == 0.03
    assert (config.early.watermark, config.early.margin) == (0.5, 0.25)


def test_what_is_left_out_changes_nothing() -> None:
    config = CacheConfig(512)
    early = (config.early.watermark, config.early.margin)
    assert with_cache_options(config, config.block_tokens, 0.0, 0.0, early) == config


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--block-tokens", 0, "block_tokens must be 1 or more"),
        ("--late-tagging", 1.5, "max_share must be from 0 to below 1"),
        ("--pack-ahead", -0.5, "staging_share must be from 0 to below 1"),
        ("--early-watermark", 1.5, "the early watermark must be above 0 and at most 1, got 1.5"),
        ("--early-margin", 0.0, "the early margin must be above 0 and at most 1, got 0.0"),
    ],
)
@pytest.mark.parametrize("name", ["run", "serve"])
def test_a_value_out_of_its_range_is_one_sentence(
    name: str, option: str, value: float, message: str, tmp_path: Path, command: RunCommand
) -> None:
    model = ("--model", tmp_path / "none")
    outcome = command(name, option, value, *model)

    assert outcome.exit_code == 2
    assert message in outcome.error
    assert "Traceback" not in outcome.error
