"""A long session of many errands whose early facts are needed until the end."""

from __future__ import annotations

import random
from collections.abc import Callable

from memdecay.data.generator.builder import (
    TraceBuilder,
)
from memdecay.data.generator.session.errands import Errands
from memdecay.data.generator.session.facts import draw_facts
from memdecay.data.generator.session.opening import close_session, open_session
from memdecay.data.generator.wording import Wording
from memdecay.data.trace import Trace

_MIN_CHARACTERS = 1000
_MIN_ERRANDS = 2


def write_session(wording: Wording, builder: TraceBuilder, num_characters: int = 0) -> None:
    """Write errands until the session has this many characters (zero: draw it), then close it."""
    num_characters = num_characters or wording.pick([3000, 4000, 6000, 9000, 14000, 24000])
    facts = draw_facts(wording)
    open_session(wording, builder, facts)
    errands = Errands(wording, builder, facts)
    queue: list[Callable[[], None]] = []
    while builder.num_characters < num_characters or len(errands.outcomes) < _MIN_ERRANDS:
        queue = queue or wording.shuffled(errands.all)
        queue.pop()()
    close_session(builder, facts, errands.outcomes)


def long_session(seed: int, num_characters: int) -> Trace:
    """Write one long session in which facts of the first turn are used until the last.

    Order number, paths, addresses and decisions stand in the first turn only; the calls and
    reports of all later errands, and the closing report, repeat them.

    Args:
        seed: Seed of all choices.
        num_characters: Least length; the session ends with the errand that reaches it.

    Raises:
        ValueError: ``num_characters`` is below 1000.
    """
    if num_characters < _MIN_CHARACTERS:
        raise ValueError(f"num_characters must be {_MIN_CHARACTERS} or above, got {num_characters}")
    builder = TraceBuilder()
    write_session(Wording(random.Random(f"session:{seed}")), builder, num_characters)
    return builder.build(f"synthetic/session/{seed}", "synthetic-session")
