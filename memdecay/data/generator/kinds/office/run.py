"""Calendar and e-mail: an assistant finds facts in messages and fixes meetings."""

from __future__ import annotations

from memdecay.data.generator.builder import (
    TraceBuilder,
)
from memdecay.data.generator.dialects import (
    STRUCTURED_STYLES,
    TEXT_STYLES,
    Dialect,
)
from memdecay.data.generator.kinds.office.desk import brief, draw_desk
from memdecay.data.generator.kinds.office.mailbox import read, search, talk
from memdecay.data.generator.kinds.office.meeting import arrange, check_day
from memdecay.data.generator.wording import Wording


def write_office(wording: Wording, builder: TraceBuilder) -> None:
    """Write an errand that needs the mailbox and the calendar."""
    desk = draw_desk(wording)
    dialect = Dialect(wording, wording.pick([*STRUCTURED_STYLES, *TEXT_STYLES, "openai"]))
    is_task_run = wording.chance(0.3)
    brief(wording, builder, desk, dialect, is_task_run=is_task_run)
    search(wording, builder, desk, dialect)
    read(wording, builder, desk, dialect)
    if not is_task_run:
        talk(wording, builder, desk)
    check_day(wording, builder, desk, dialect)
    arrange(wording, builder, desk, dialect, is_task_run=is_task_run)
