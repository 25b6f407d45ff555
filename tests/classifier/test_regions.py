import math
import tomllib

import pytest

from memdecay.classifier.region_file import read_region_settings, region_settings_toml
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import (
    REGION_LABELS,
    SHIPPED_FILE,
    UNTAGGED_TABLE,
    Region,
    RegionDecay,
    RegionTable,
)


def test_regions_stand_in_the_documented_order() -> None:
    assert REGION_LABELS == (
        "system_instruction",
        "key_decision",
        "tool_summary",
        "recent_dialogue",
        "ordinary_context",
    )


@pytest.mark.parametrize("region", Region)
def test_label_and_region_are_inverse(region: Region) -> None:
    assert Region.from_label(region.label) is region


def test_unknown_label_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown region 'chat'.*key_decision"):
        Region.from_label("chat")


def test_the_default_table_is_the_shipped_file_as_tune_writes_it() -> None:
    settings = read_region_settings(SHIPPED_FILE)
    # Only a table is shipped: a cache without regions would have the template's weight too.
    assert settings == RegionSettings(
        table=RegionTable(), model="smollm2", made_by=settings.made_by
    )
    assert SHIPPED_FILE.read_text(encoding="utf-8") == region_settings_toml(settings)
    rows = tomllib.loads(SHIPPED_FILE.read_text(encoding="utf-8"))["regions"]
    assert rows == RegionTable().to_dict()


def test_default_scores_rank_decisions_first_and_ordinary_context_last() -> None:
    scores = RegionTable().initial_scores
    assert max(scores) == scores[Region.KEY_DECISION]
    assert min(scores) == scores[Region.ORDINARY_CONTEXT] == 1.0


def test_default_instructions_never_fade_and_decisions_outlive_ordinary_context() -> None:
    table = RegionTable()
    assert table.system_instruction.decay == 0.0
    for age in (0, 1_000, 4_000):
        decision, ordinary = (
            row.initial_score * math.exp(-row.decay * age)
            for row in (table.key_decision, table.ordinary_context)
        )
        assert decision > ordinary


def test_half_life_halves_the_score() -> None:
    decay = RegionDecay(8.0, 0.01)
    assert math.exp(-decay.decay * decay.half_life_tokens) == pytest.approx(0.5)


def test_half_life_of_a_region_that_never_fades_is_infinite() -> None:
    assert RegionDecay(1.0, 0.0).half_life_tokens == math.inf


def test_table_survives_a_round_trip_through_plain_data() -> None:
    table = RegionTable(key_decision=RegionDecay(20.0, 0.5))
    assert RegionTable.from_dict(table.to_dict()) == table


def test_region_left_out_keeps_its_default() -> None:
    table = RegionTable.from_dict({"tool_summary": {"decay": 0.25}})
    assert table.tool_summary == RegionDecay(RegionTable().tool_summary.initial_score, 0.25)
    assert table.key_decision == RegionTable().key_decision


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"chat": {}}, "unknown region"),
        ({"key_decision": {"weight": 1.0}}, "unknown field 'weight'"),
        ({"key_decision": {"initial_score": 0}}, "initial_score must be above 0"),
        ({"key_decision": {"decay": -1}}, "decay must be 0 or above"),
        ({"key_decision": {"decay": math.nan}}, "decay must be a finite number"),
    ],
)
def test_bad_table_is_refused(data: dict[str, dict[str, float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RegionTable.from_dict(data)


def test_untagged_tokens_fade_faster_than_tagged_ordinary_ones() -> None:
    untagged, tagged = UNTAGGED_TABLE.ordinary_context, RegionTable().ordinary_context
    assert untagged.decay > tagged.decay
    assert untagged.initial_score == tagged.initial_score
