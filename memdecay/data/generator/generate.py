"""Labelled agent runs of many kinds from one seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from memdecay.data.generator.builder import TraceBuilder
from memdecay.data.generator.kinds.analysis import write_analysis
from memdecay.data.generator.kinds.chat import write_chat
from memdecay.data.generator.kinds.coding import write_coding
from memdecay.data.generator.kinds.handover import write_handover
from memdecay.data.generator.kinds.household import write_household
from memdecay.data.generator.kinds.office import write_office
from memdecay.data.generator.kinds.question_answering import write_question_answering
from memdecay.data.generator.kinds.service import write_service
from memdecay.data.generator.kinds.shopping import write_shopping
from memdecay.data.generator.session import write_session
from memdecay.data.generator.wording import Wording
from memdecay.data.trace import Trace

Writer = Callable[[Wording, TraceBuilder], None]
WRITERS: dict[str, Writer] = {
    "service": write_service,
    "coding": write_coding,
    "question_answering": write_question_answering,
    "shopping": write_shopping,
    "office": write_office,
    "analysis": write_analysis,
    "household": write_household,
    "handover": write_handover,
    "chat": write_chat,
    "session": write_session,
}
KINDS: tuple[str, ...] = tuple(WRITERS)
_SOURCE_PREFIX = "synthetic-"


def generate_trace(kind: str, seed: int, index: int = 0) -> Trace:
    """Write one run of a kind; it depends on nothing but the arguments.

    Raises:
        ValueError: No kind has this name.
    """
    if kind not in WRITERS:
        raise ValueError(f"unknown kind {kind!r}; expected one of {', '.join(KINDS)}")
    builder = TraceBuilder()
    WRITERS[kind](Wording(random.Random(f"{kind}:{seed}:{index}")), builder)
    return builder.build(f"synthetic/{kind}/{seed}-{index}", f"{_SOURCE_PREFIX}{kind}")


def is_generated(trace: Trace) -> bool:
    """Tell whether a trace names a kind of run of this generator as its source."""
    return trace.source.removeprefix(_SOURCE_PREFIX) in KINDS and trace.source not in KINDS


def generate_traces(num_traces: int, seed: int) -> Iterator[Trace]:
    """Write labelled runs, going through the kinds in turn.

    The first runs of a longer sequence are those of a shorter one with the same seed.

    Args:
        num_traces: Number of runs, zero or above.
        seed: Seed of all choices.

    Raises:
        ValueError: ``num_traces`` is negative.
    """
    if num_traces < 0:
        raise ValueError(f"num_traces must be 0 or above, got {num_traces}")
    return (generate_trace(KINDS[i % len(KINDS)], seed, i // len(KINDS)) for i in range(num_traces))
