from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from memdecay.classifier.errors import StorageError
from memdecay.classifier.regions import Region
from memdecay.classifier.regret import ConfusionCost, EvictionRegret
from memdecay.data.trace import Message, Span, Trace
from memdecay.training.decay.regret_progress import TRACES_FILE, RegretProgress

REGRET = EvictionRegret(
    num_positions=20,
    num_tokens=300,
    num_wrong=7,
    kl_gold=0.1,
    kl_tagger=0.25,
    kl_untagged=0.5,
    confusions=(ConfusionCost(Region.KEY_DECISION, Region.TOOL_SUMMARY, 7, 0.25),),
)


def trace(text: str = "a", region: Region = Region.KEY_DECISION) -> Trace:
    return Trace("id", (Message("user", text),), spans=(Span(0, 0, 1, region),))


def test_what_was_measured_is_found_by_the_next_run(tmp_path: Path) -> None:
    first = RegretProgress(tmp_path / "out", {"budget": 1})
    assert not first.is_measured(trace())
    first.save(trace(), REGRET)
    first.save(trace("b"), None)

    second = RegretProgress(tmp_path / "out", {"budget": 1})

    assert second.find(trace()) == REGRET
    assert second.is_measured(trace("b"))
    assert second.find(trace("b")) is None


def test_other_settings_texts_or_labels_are_measured_anew(tmp_path: Path) -> None:
    RegretProgress(tmp_path, {"budget": 1}).save(trace(), REGRET)

    same, other = (RegretProgress(tmp_path, {"budget": budget}) for budget in (1, 2))

    assert same.is_measured(replace(trace(), id="another name"))
    assert not same.is_measured(trace("b"))
    assert not same.is_measured(trace(region=Region.TOOL_SUMMARY))
    assert not other.is_measured(trace())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"settings": 1}', '{"traces": {"a": 5}}'])
def test_a_damaged_file_is_no_progress(text: str, tmp_path: Path) -> None:
    (tmp_path / TRACES_FILE).write_text(text)

    progress = RegretProgress(tmp_path, {})

    assert not progress.is_measured(trace())
    progress.save(trace(), REGRET)
    assert RegretProgress(tmp_path, {}).find(trace()) == REGRET


def test_a_place_that_cannot_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    progress = RegretProgress(tmp_path / "file", {})

    with pytest.raises(StorageError, match="could not be written"):
        progress.save(trace(), REGRET)
