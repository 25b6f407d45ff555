from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdecay.data.windows import TokenWindow, split_into_windows


def message_index(*lengths: int) -> np.ndarray:
    return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)


def bounds(windows: tuple[TokenWindow, ...]) -> list[tuple[int, int]]:
    return [(window.start, window.end) for window in windows]


@pytest.mark.parametrize(
    ("lengths", "expected", "cut"),
    [
        ((3, 4), [(0, 7)], ()),
        ((5, 5), [(0, 10)], ()),
        ((6, 5), [(0, 6), (6, 11)], ()),
        ((3, 3, 3, 3), [(0, 9), (9, 12)], ()),
        ((25,), [(0, 10), (10, 20), (20, 25)], (0,)),
        ((2, 12, 3), [(0, 2), (2, 12), (12, 17)], (1,)),
        ((20, 1), [(0, 10), (10, 20), (20, 21)], (0,)),
        ((), [], ()),
    ],
)
def test_windows_end_at_messages(
    lengths: tuple[int, ...], expected: list[tuple[int, int]], cut: tuple[int, ...]
) -> None:
    windows, report = split_into_windows(message_index(*lengths), 10)
    assert bounds(windows) == expected
    assert report.cut_messages == cut
    assert report.num_tokens == sum(lengths)
    assert report.num_windows == len(expected)
    assert report.is_split == (len(expected) > 1)


def test_text_before_the_first_message_stays_with_it() -> None:
    windows, _ = split_into_windows(np.array([-1, -1, 0, 0, 1, 1], np.int32), 4)
    assert bounds(windows) == [(0, 4), (4, 6)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(1, 30), max_size=20), st.integers(1, 40))
def test_nothing_is_lost_and_no_window_is_too_long(lengths: list[int], max_tokens: int) -> None:
    windows, report = split_into_windows(message_index(*lengths), max_tokens)
    tokens = [token for window in windows for token in range(window.start, window.end)]
    assert tokens == list(range(sum(lengths)))
    assert all(0 < window.num_tokens <= max_tokens for window in windows)
    assert report.cut_messages == tuple(i for i, n in enumerate(lengths) if n > max_tokens)
    message_starts = set(np.cumsum([0, *lengths]).tolist())
    inside = [w.start for w in windows if w.start not in message_starts]
    cut = sum(-(-n // max_tokens) - 1 for n in lengths if n > max_tokens)
    assert len(inside) == cut


def test_empty_windows_are_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens must be 1 or above"):
        split_into_windows(message_index(1), 0)
