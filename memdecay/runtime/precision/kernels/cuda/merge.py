"""The kernel that joins what the splits of the tokens gave."""

from __future__ import annotations

import triton
import triton.language as tl

from memdecay.runtime.precision.kernels.cuda.unpack import hadamard_signs

LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def merge_splits(
    outputs,
    sums,
    merged,
    lse,
    num_rows,
    num_splits,
    NUM_SCALES: tl.constexpr,
    SCALE_SIZE: tl.constexpr,
    VALUE_PADDED: tl.constexpr,
    MOST_SPLITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Average the splits' values by the splits' weights and undo the values' rotation.

    The grid is (batch * key heads, rows).

    Args:
        outputs: ``(batch * key heads, splits, rows, value_dim)``, float32.
        sums: ``(batch * key heads, splits, rows)``, float32: log-sum-exp to base 2.
        merged: ``(batch * key heads, rows, value_dim)``, float32.
        lse: ``(batch * key heads, rows)``, float32: natural log-sum-exp.
        num_rows: Queries that share a key head.
        num_splits: Splits.
        NUM_SCALES: Scales of a value.
        SCALE_SIZE: Elements of a value that share one, and are rotated together.
        VALUE_PADDED: Width of a value, filled up to a power of two.
        MOST_SPLITS: A power of two that no number of splits exceeds.
        BLOCK: Splits at once.
    """
    head = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1)
    splits = tl.arange(0, MOST_SPLITS)
    sums += head * num_splits * num_rows + row
    all_sums = tl.load(sums + splits * num_rows, mask=splits < num_splits, other=float("-inf"))
    largest = tl.max(all_sums, axis=0)
    base = tl.where(largest == float("-inf"), 0.0, largest)
    total = tl.sum(tl.exp2(all_sums - base), axis=0)
    total = tl.where(total == 0.0, 1.0, total)  # where no token is seen
    place = head * num_rows + row
    tl.store(lse + place, (largest + tl.log2(total)) * LN_2)

    VALUE_DIM: tl.constexpr = NUM_SCALES * SCALE_SIZE
    elements = tl.arange(0, VALUE_PADDED)
    average = tl.zeros((VALUE_PADDED,), tl.float32)
    for start in range(0, num_splits, BLOCK):
        some = start + tl.arange(0, BLOCK)
        weights = tl.exp2(
            tl.load(sums + some * num_rows, mask=some < num_splits, other=float("-inf")) - base
        )
        places = (head * num_splits + some) * num_rows + row
        is_there = (some < num_splits)[:, None] & (elements < VALUE_DIM)[None, :]
        values = tl.load(
            outputs + places[:, None] * VALUE_DIM + elements[None, :], mask=is_there, other=0.0
        )
        average += tl.sum(values * weights[:, None], axis=0)
    average /= total

    rotated = tl.reshape(average, (VALUE_PADDED // SCALE_SIZE, SCALE_SIZE, 1))
    signs = hadamard_signs(SCALE_SIZE, SCALE_SIZE)[None, :, :] * SCALE_SIZE**-0.5
    straight = tl.reshape(tl.sum(rotated * signs, axis=1), (VALUE_PADDED,))
    tl.store(merged + place * VALUE_DIM + elements, straight, mask=elements < VALUE_DIM)
