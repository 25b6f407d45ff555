from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.errors import ConfigError, StorageError
from memdecay.classifier.region_file import (
    read_region_settings,
    region_settings_toml,
    write_region_settings,
)
from memdecay.classifier.region_settings import BIT_WIDTHS, RegionSettings
from memdecay.classifier.regions import REGION_LABELS, Region, RegionDecay, RegionTable


def five(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*[values] * 5)


_SCORES = st.floats(1e-6, 1e6)
_DECAYS = st.floats(0.0, 10.0)
_SETTINGS = st.builds(
    RegionSettings,
    table=st.builds(
        RegionTable, **{label: st.builds(RegionDecay, _SCORES, _DECAYS) for label in REGION_LABELS}
    ),
    weights=five(st.floats(-50, 50)),
    max_shares=five(st.none() | st.floats(0.2, 1.0)),
    min_shares=five(st.floats(0.0, 0.2)),
    min_bits=five(st.sampled_from(BIT_WIDTHS)),
    template_weight=st.floats(-50, 50),
    prior_weight=st.none() | st.floats(0, 2),
    model=st.text(st.characters(exclude_categories=["Cs"])),
    made_by=st.text(st.characters(exclude_categories=["Cs"])),
)


@given(settings=_SETTINGS)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, settings: RegionSettings
) -> None:
    path = tmp_path_factory.mktemp("regions") / "regions.toml"
    write_region_settings(path, settings)
    assert read_region_settings(path) == settings


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "regions.toml"
    path.write_text("")
    assert read_region_settings(path) == RegionSettings()


def test_a_file_by_hand_changes_what_it_names_only(tmp_path: Path) -> None:
    path = tmp_path / "regions.toml"
    path.write_text("[regions.key_decision]\ndecay = 0.5\nmax_share = 1\nmin_bits = 8\n")
    settings = read_region_settings(path)
    default = RegionTable()
    assert settings.table.key_decision == RegionDecay(default.key_decision.initial_score, 0.5)
    assert settings.table.tool_summary == default.tool_summary
    assert settings.max_shares == (None, 1.0, None, None, None)
    assert settings.min_bits == (2, 8, 2, 2, 2)
    assert settings.shares_within(0.4) == (0.4, 1.0, 0.4, 0.4, 0.4)


def test_defaults_are_not_written() -> None:
    text = region_settings_toml(RegionSettings())
    assert "weight" not in text
    assert "share" not in text
    assert "bits" not in text


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[regions", "is no TOML"),
        ("[decay]\n", "the file has the unknown key 'decay'; expected meta, score, regions"),
        ("regions = 3\n", r"\[regions\] must be a table, got 3"),
        ("[regions.notes]\n", r"\[regions\] has the unknown key 'notes'"),
        ("[regions]\nkey_decision = 1\n", r"\[regions.key_decision\] must be a table, got 1"),
        ("[regions.key_decision]\nhalf_life = 1\n", "unknown key 'half_life'; expected initial_sc"),
        ("[regions.key_decision]\ndecay = '1'\n", "decay must be a number, got '1'"),
        ("[regions.key_decision]\ndecay = true\n", "decay must be a number, got True"),
        ("[regions.key_decision]\ndecay = -1\n", r"\[regions.key_decision\]: decay must be 0 or"),
        ("[regions.key_decision]\ninitial_score = nan\n", "initial_score must be above 0, got nan"),
        ("[regions.key_decision]\nweight = inf\n", "weight of key_decision must be finite"),
        ("[regions.key_decision]\nmax_share = 0\n", "max_share of key_decision must be above 0"),
        ("[regions.key_decision]\nmin_share = 2\n", "min_share of key_decision must be from 0"),
        (
            "[regions.key_decision]\nmin_share = 0.5\nmax_share = 0.2\n",
            "min_share of key_decision, 0.5, stands above its max_share, 0.2",
        ),
        (
            "[regions.key_decision]\nmin_share = 0.6\n[regions.tool_summary]\nmin_share = 0.6\n",
            "add up to 1.2, expected at most 1",
        ),
        ("[regions.key_decision]\nmin_bits = 5\n", "min_bits of key_decision must be one of"),
        ("[regions.key_decision]\nmin_bits = 4.0\n", "min_bits must be one of .* got 4.0"),
        ("score = 1\n", r"\[score\] must be a table, got 1"),
        ("[score]\nweight = 1\n", r"\[score\] has the unknown key 'weight'"),
        ("[score]\nprior_weight = -1\n", "prior_weight must be 0 or above, got -1.0"),
        ("[score]\ntemplate_weight = nan\n", "template_weight must be finite, got nan"),
        ("[meta]\nauthor = 'me'\n", r"\[meta\] has the unknown key 'author'"),
        ("[meta]\nversion = 9\n", "has format version 9, but this memdecay reads up to version 1"),
        ("[meta]\nversion = '1'\n", "version must be a whole number"),
        ("[meta]\nmodel = 3\n", "model must be text, got 3"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "regions.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=match) as refused:
        read_region_settings(path)
    assert str(path) in str(refused.value)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_region_settings(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="no UTF-8"):
        read_region_settings(tmp_path / "binary.toml")


def test_a_place_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="it is a folder"):
        write_region_settings(tmp_path, RegionSettings())


@pytest.mark.parametrize("name", ["weights", "max_shares", "min_shares", "min_bits"])
def test_a_tuple_of_another_length_is_refused(name: str) -> None:
    values: dict[str, Any] = {name: (1,) * (len(Region) - 1)}
    with pytest.raises(ValueError, match=re.escape(f"{name} needs 5 values")):
        RegionSettings(**values)
