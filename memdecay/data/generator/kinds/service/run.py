"""Customer service: an agent with tools and rules talks to a customer about one record."""

from __future__ import annotations

from memdecay.data.generator.builder import (
    TraceBuilder,
)
from memdecay.data.generator.dialects import (
    STRUCTURED_STYLES,
    Dialect,
)
from memdecay.data.generator.kinds.service.case import draw_case
from memdecay.data.generator.kinds.service.greeting import (
    ask_in_passing,
    brief_agent,
    identify,
    look_up_record,
    open_call,
)
from memdecay.data.generator.kinds.service.outcome import agree_and_change, part, refuse
from memdecay.data.generator.wording import Wording


def write_service(wording: Wording, builder: TraceBuilder) -> None:
    """Write a customer's call from the greeting to the farewell."""
    case = draw_case(wording)
    style = wording.pick([*STRUCTURED_STYLES, "openai", "tool_call", "json_block"])
    dialect = Dialect(wording, style)
    if not dialect.is_structured or wording.chance(0.8):
        brief_agent(wording, builder, case, dialect)
    open_call(wording, builder, case)
    identify(wording, builder, case, dialect)
    if wording.chance(0.6):
        ask_in_passing(wording, builder, case)
    look_up_record(wording, builder, case, dialect)
    if case.request.refusal and wording.chance(0.35):
        refuse(wording, builder, case, dialect)
    else:
        agree_and_change(wording, builder, case, dialect)
    part(wording, builder, case)
