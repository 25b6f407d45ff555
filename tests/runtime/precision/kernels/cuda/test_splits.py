"""Every token falls into one split."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memdecay.runtime.precision.kernels.cuda.splits import MOST_SPLITS, Splits


@given(
    counts=st.lists(st.integers(1, 20_000), min_size=1, max_size=3),
    block=st.sampled_from([32, 64]),
    wanted=st.integers(0, 300),
)
def test_splits_cover_each_part_and_none_is_empty(
    counts: list[int], block: int, wanted: int
) -> None:
    splits = Splits.share(counts, block, wanted)

    first = 0
    for count, end in zip(counts, splits.ends, strict=True):
        assert (end - first - 1) * splits.run < count <= (end - first) * splits.run
        first = end
    assert splits.run % block == 0
    assert splits.num_splits <= MOST_SPLITS


@given(count=st.integers(1, 20_000), wanted=st.integers(1, MOST_SPLITS))
def test_a_long_part_gets_about_as_many_splits_as_wanted(count: int, wanted: int) -> None:
    splits = Splits.share([count], 64, wanted)

    assert splits.num_splits <= wanted
    # Fewer only where blocks can't be divided into more runs of equal length.
    blocks = -(-count // 64)
    assert splits.run // 64 == -(-blocks // wanted)
