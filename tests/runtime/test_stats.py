from __future__ import annotations

import pytest

from memdecay.runtime import stats
from memdecay.runtime.stats import Meter

from .reference import make_cache, tiny_llama


def test_a_long_sessions_history_is_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "MOST_SNAPSHOTS", 8)
    meter = Meter(make_cache(tiny_llama(), 16))
    for _ in range(100):
        meter.take_snapshot()
        assert len(meter.stats().history) <= 8


def test_the_newest_snapshot_outlives_the_thinning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "MOST_SNAPSHOTS", 4)
    meter = Meter(make_cache(tiny_llama(), 16))
    for _ in range(4):
        meter.take_snapshot()
    newest = meter.stats().history[-1]
    meter.take_snapshot()
    assert newest is meter.stats().history[-2]
