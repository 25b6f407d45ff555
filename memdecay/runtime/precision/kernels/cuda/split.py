"""The kernel that attends to packed tokens, each program to a run of one step's tokens."""

from __future__ import annotations

import triton
import triton.language as tl

from memdecay.runtime.precision.kernels.cuda.unpack import load_band, load_values

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def load_queries(query, row_offsets, is_row, first, SIZE: tl.constexpr, PADDED: tl.constexpr):
    """Load some elements of the queries that share a key head.

    Returns:
        ``(PADDED, rows)``, in the query's dtype; zero where there is no row or element.
    """
    elements = tl.arange(0, PADDED)
    is_there = (elements < SIZE)[:, None] & is_row[None, :]
    offsets = row_offsets[None, :] + (first + elements)[:, None]
    return tl.load(query + offsets, mask=is_there, other=0.0)


@triton.jit
def load_directions(
    directions,
    BANDS: tl.constexpr,
    BAND: tl.constexpr,
    first,
    SIZE: tl.constexpr,
    PADDED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    is_wanted,
):
    """Load what a band's coordinates add to some elements of a key.

    Returns:
        ``(padded size of the band, PADDED)``.
    """
    coordinates = tl.arange(0, BANDS[5 * BAND + 2])
    elements = tl.arange(0, PADDED)
    is_there = (coordinates < BANDS[5 * BAND + 1])[:, None] & (elements < SIZE)[None, :] & is_wanted
    columns = BANDS[5 * BAND + 3] + coordinates
    offsets = (first + elements)[None, :] * HEAD_DIM + columns[:, None]
    return tl.load(directions + offsets, mask=is_there, other=0.0)


@triton.jit
def load_mean(mean, first, SIZE: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr):
    """Load some elements of the mean key for every token of a block, ``(BLOCK, PADDED)``."""
    elements = tl.arange(0, PADDED)
    row = tl.load(mean + first + elements, mask=elements < SIZE, other=0.0)
    return tl.broadcast_to(row.to(tl.float32)[None, :], (BLOCK, PADDED))


@triton.jit
def key_logits(
    queries,
    key_rows,
    mean,
    directions,
    cos,
    sin,
    is_token,
    is_wanted,
    BANDS: tl.constexpr,
    FIRST_BAND: tl.constexpr,
    END_BAND: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HALF: tl.constexpr,
    HALF_PADDED: tl.constexpr,
    REST: tl.constexpr,
    REST_PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    DTYPE: tl.constexpr,
    DOT: tl.constexpr,
):
    """Unpack and turn the keys of a block of tokens and multiply them with the queries.

    Returns:
        ``(BLOCK, ROWS)``, float32.
    """
    one, two, three = queries
    if HALF > 0:
        first = load_mean(mean, 0, HALF, HALF_PADDED, BLOCK)
        second = load_mean(mean, HALF, HALF, HALF_PADDED, BLOCK)
    if REST > 0:
        rest = load_mean(mean, 2 * HALF, REST, REST_PADDED, BLOCK)
    for index in tl.static_range(FIRST_BAND, END_BAND):
        band = load_band(key_rows, is_token, BANDS, index, DTYPE, DOT)
        if HALF > 0:
            part = load_directions(
                directions, BANDS, index, 0, HALF, HALF_PADDED, HEAD_DIM, is_wanted
            )
            first = tl.dot(band, part.to(DTYPE), first, input_precision=DOT)
            part = load_directions(
                directions, BANDS, index, HALF, HALF, HALF_PADDED, HEAD_DIM, is_wanted
            )
            second = tl.dot(band, part.to(DTYPE), second, input_precision=DOT)
        if REST > 0:
            other = load_directions(
                directions, BANDS, index, 2 * HALF, REST, REST_PADDED, HEAD_DIM, is_wanted
            )
            rest = tl.dot(band, other.to(DTYPE), rest, input_precision=DOT)
    logits = tl.zeros((BLOCK, ROWS), tl.float32)
    if HALF > 0:
        angles = tl.arange(0, HALF_PADDED)[None, :]
        is_angle = is_token[:, None] & (angles < HALF)
        cosine = tl.load(cos[:, None] + angles, mask=is_angle, other=0.0)
        sine = tl.load(sin[:, None] + angles, mask=is_angle, other=0.0)
        turned = (first * cosine - second * sine).to(DTYPE)
        logits = tl.dot(turned, one, logits, input_precision=DOT)
        turned = (second * cosine + first * sine).to(DTYPE)
        logits = tl.dot(turned, two, logits, input_precision=DOT)
    if REST > 0:
        logits = tl.dot(rest.to(DTYPE), three, logits, input_precision=DOT)
    return logits


@triton.jit
def attend_part(
    queries,
    keys,
    values,
    mean,
    directions,
    cos,
    sin,
    bias,
    begin,
    end,
    scale,
    BANDS: tl.constexpr,
    FIRST_BAND: tl.constexpr,
    END_BAND: tl.constexpr,
    KEY_BYTES: tl.constexpr,
    VALUE_BITS: tl.constexpr,
    VALUE_BYTES: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HALF: tl.constexpr,
    HALF_PADDED: tl.constexpr,
    REST: tl.constexpr,
    REST_PADDED: tl.constexpr,
    NUM_SCALES: tl.constexpr,
    SCALE_SIZE: tl.constexpr,
    VALUE_PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    DTYPE: tl.constexpr,
    DOT: tl.constexpr,
    KEEPS_DIRECTIONS: tl.constexpr,
):
    """Attend to the tokens from ``begin`` to before ``end`` of one part, block by block.

    Returns:
        The weighted sum of the values, still rotated, ``(ROWS, VALUE_PADDED)``; the largest logit
        and the sum of the weights, both ``(ROWS,)``, to base 2.
    """
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    output = tl.zeros((ROWS, VALUE_PADDED), tl.float32)
    for start in range(begin, end, BLOCK):
        tokens = start + tl.arange(0, BLOCK)
        is_token = tokens < end
        is_wanted = tl.full((1, 1), 1, tl.int1)
        if not KEEPS_DIRECTIONS:
            # The compiler loads the directions once, into shared memory, unless a condition that
            # it can't see through makes it load them for every block.
            is_wanted = start + tl.zeros((1, 1), tl.int32) < end
        logits = key_logits(
            queries,
            keys + tokens * KEY_BYTES,
            mean,
            directions,
            cos + tokens * HALF,
            sin + tokens * HALF,
            is_token,
            is_wanted,
            BANDS,
            FIRST_BAND,
            END_BAND,
            HEAD_DIM,
            HALF,
            HALF_PADDED,
            REST,
            REST_PADDED,
            BLOCK,
            ROWS,
            DTYPE,
            DOT,
        )
        logits *= scale * LOG2_E
        if bias is not None:
            logits += tl.load(bias + tokens, mask=is_token, other=0.0)[:, None] * LOG2_E
        logits = tl.where(is_token[:, None], logits, float("-inf"))

        new_largest = tl.maximum(largest, tl.max(logits, axis=0))
        # Where no token is seen yet, any finite number does: all weights are zero.
        base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        weights = tl.exp2(logits - base[None, :])  # (BLOCK, ROWS)
        fade = tl.exp2(largest - base)
        total = total * fade + tl.sum(weights, axis=0)
        value_rows = values + tokens * VALUE_BYTES
        numbers = load_values(
            value_rows, is_token, VALUE_BITS, NUM_SCALES, SCALE_SIZE, VALUE_PADDED, BLOCK
        )
        output = tl.dot(
            tl.trans(weights.to(DTYPE)),
            numbers.to(DTYPE),
            output * fade[:, None],
            input_precision=DOT,
        )
        largest = new_largest
    return output, largest, total


@triton.jit(
    do_not_specialize=[
        "bias_stride",
        "num_rows",
        "num_queries",
        "num_splits",
        "run",
        "num_tokens_0",
        "num_tokens_1",
        "num_tokens_2",
        "end_split_0",
        "end_split_1",
        "end_split_2",
        "angle_stride_0",
        "angle_stride_1",
        "angle_stride_2",
    ]
)
def attend_splits(
    query,
    parts,
    bias,
    outputs,
    sums,
    scale,
    batch_stride,
    head_stride,
    query_stride,
    bias_stride,
    num_key_heads,
    num_rows,
    num_queries,
    num_splits,
    run,
    num_tokens_0,
    num_tokens_1,
    num_tokens_2,
    end_split_0,
    end_split_1,
    end_split_2,
    angle_stride_0,
    angle_stride_1,
    angle_stride_2,
    BANDS: tl.constexpr,
    FIRST_BANDS: tl.constexpr,
    KEY_BYTES: tl.constexpr,
    VALUE_BITS: tl.constexpr,
    VALUE_BYTES: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HALF: tl.constexpr,
    HALF_PADDED: tl.constexpr,
    REST: tl.constexpr,
    REST_PADDED: tl.constexpr,
    NUM_SCALES: tl.constexpr,
    SCALE_SIZE: tl.constexpr,
    VALUE_PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    DTYPE: tl.constexpr,
    DOT: tl.constexpr,
    KEEPS_DIRECTIONS: tl.constexpr,
):
    """Attend to one run of tokens for one row of the batch, key head and block of queries.

    The grid is (splits, batch * key heads, blocks of queries); each part of the packed tokens has
    splits of its own.

    Args:
        query: ``(batch, heads, q, head_dim)``.
        parts: For each part keys and values as bytes, mean and directions, cosines and sines.
        bias: ``(batch, n)``, or None.
        outputs: ``(batch * key heads, splits, rows, value_dim)``, float32; still rotated.
        sums: ``(batch * key heads, splits, rows)``, float32: log-sum-exp to base 2.
        scale: Factor on the logits.
        batch_stride: Elements between the query's rows of the batch.
        head_stride: Elements between its heads.
        query_stride: Elements between its queries.
        bias_stride: Elements between rows of the bias.
        num_key_heads: Key heads.
        num_rows: Queries that share a key head.
        num_queries: Queries of a head.
        num_splits: Splits of all parts together.
        run: Tokens of a split.
        num_tokens_0: Tokens of the first part.
        num_tokens_1: Of the second, 0 if there is none.
        num_tokens_2: Of the third.
        end_split_0: Splits up to the end of the first part.
        end_split_1: Of the second.
        end_split_2: Of the third.
        angle_stride_0: Elements between rows of the first part's cosines and sines.
        angle_stride_1: Of the second's.
        angle_stride_2: Of the third's.
        BANDS: For each band of a key the numbers of a `BandShape`, part after part.
        FIRST_BANDS: For each part its first band, and behind them the number of bands.
        KEY_BYTES: For each part the bytes of a key.
        VALUE_BITS: For each part the bits of a value's elements.
        VALUE_BYTES: For each part the bytes of a value.
        HEAD_DIM: Width of a key.
        HALF: Half of its elements that are turned.
        HALF_PADDED: Filled up to a power of two.
        REST: Its elements that are not turned.
        REST_PADDED: Filled up to a power of two.
        NUM_SCALES: Scales of a value.
        SCALE_SIZE: Elements of a value that share one.
        VALUE_PADDED: Width of a value, filled up to a power of two.
        BLOCK: Tokens at once.
        ROWS: Queries at once.
        DTYPE: Type of what is multiplied.
        DOT: How precisely float32 is multiplied.
        KEEPS_DIRECTIONS: Whether shared memory has room for a head's directions.
    """
    split = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    batch = head // num_key_heads
    key_head = head % num_key_heads
    rows = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    is_row = rows < num_rows
    heads = key_head * (num_rows // num_queries) + rows // num_queries
    offsets = batch * batch_stride + heads * head_stride + (rows % num_queries) * query_stride
    queries = (
        load_queries(query, offsets, is_row, 0, HALF, HALF_PADDED).to(DTYPE),
        load_queries(query, offsets, is_row, HALF, HALF, HALF_PADDED).to(DTYPE),
        load_queries(query, offsets, is_row, 2 * HALF, REST, REST_PADDED).to(DTYPE),
    )
    # Numbers in a tuple that is handed over would make Triton compile for each of their values.
    counts = (num_tokens_0, num_tokens_1, num_tokens_2)
    befores = (0, num_tokens_0, num_tokens_0 + num_tokens_1)
    borders = (0, end_split_0, end_split_1, end_split_2)
    angle_strides = (angle_stride_0, angle_stride_1, angle_stride_2)
    for index in tl.static_range(len(KEY_BYTES)):
        first_split = borders[index]
        if (split >= first_split) & (split < borders[index + 1]):
            num_tokens = counts[index]
            keys, values, mean, directions, cos, sin = parts[index]
            begin = (split - first_split) * run
            part_bias = bias
            if bias is not None:
                part_bias = bias + batch * bias_stride + befores[index]
            output, largest, total = attend_part(
                queries,
                keys + head * num_tokens * KEY_BYTES[index],
                values + head * num_tokens * VALUE_BYTES[index],
                mean + key_head * HEAD_DIM,
                directions + key_head * HEAD_DIM * HEAD_DIM,
                cos + batch * angle_strides[index],
                sin + batch * angle_strides[index],
                part_bias,
                begin,
                tl.minimum(begin + run, num_tokens),
                scale,
                BANDS,
                FIRST_BANDS[index],
                FIRST_BANDS[index + 1],
                KEY_BYTES[index],
                VALUE_BITS[index],
                VALUE_BYTES[index],
                HEAD_DIM,
                HALF,
                HALF_PADDED,
                REST,
                REST_PADDED,
                NUM_SCALES,
                SCALE_SIZE,
                VALUE_PADDED,
                BLOCK,
                ROWS,
                DTYPE,
                DOT,
                KEEPS_DIRECTIONS,
            )
            places = (head * num_splits + split) * num_rows + rows
            total = tl.where(total == 0.0, 1.0, total)  # where no token is seen
            tl.store(sums + places, largest + tl.log2(total), mask=is_row)
            VALUE_DIM: tl.constexpr = NUM_SCALES * SCALE_SIZE
            elements = tl.arange(0, VALUE_PADDED)
            tl.store(
                outputs + places[:, None] * VALUE_DIM + elements[None, :],
                output / total[:, None],
                mask=is_row[:, None] & (elements < VALUE_DIM)[None, :],
            )
