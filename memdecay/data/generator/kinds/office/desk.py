"""Whose mailbox it is, what is asked, and the rules of the assistant."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.builder import (
    TraceBuilder,
    decision,
    dialogue,
    instruction,
)
from memdecay.data.generator.dialects import (
    Dialect,
    Tool,
    describe_tools,
)
from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.vocabulary.mail import (
    TOPICS,
    Topic,
)
from memdecay.data.generator.wording import Wording

_TOOLS = (
    Tool("search_mail", "Search the mailbox; returns id, date, sender and subject.", {"query": "words to look for"}),
    Tool("read_mail", "Return one message with its quoted history.", {"mail_id": "id from search_mail"}),
    Tool("list_events", "List the events of one day.", {"date": "YYYY-MM-DD"}),
    Tool("create_event", "Create an event and invite people.", {"title": "title", "start": "date and time", "minutes": "length", "invite": "addresses"}),
    Tool("send_mail", "Send a message.", {"to": "address", "subject": "subject", "body": "text"}),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Desk:
    """Who works for whom on what."""

    topic: Topic
    owner: str
    partner: str
    partner_email: str
    date: str
    start: str
    minutes: int
    detail: str
    mail_id: str


def draw_desk(wording: Wording) -> Desk:
    """Return whose mailbox it is and what is to be arranged."""
    topic = wording.pick(TOPICS)
    partner = people.full_name(wording)
    return Desk(
        topic=topic,
        owner=people.full_name(wording),
        partner=partner,
        partner_email=people.email_of(partner, wording),
        date=people.day(wording),
        start=people.clock(wording, 13, 15),
        minutes=wording.pick([20, 30, 45, 60, 90]),
        detail=wording(
            wording.pick(topic.details),
            number=wording.code("####"),
            place=people.invented_place(wording),
            amount=wording.number(120, 9800),
        ),
        mail_id=wording.code("m-~~~~~~"),
    )


def brief(
    wording: Wording, builder: TraceBuilder, desk: Desk, dialect: Dialect, *, is_task_run: bool
) -> None:
    """Write the rules of the assistant and the request."""
    rules = [
        "Times are {local|Central European} time, weeks start on Monday.",
        "{Never|Do not} send a message {without approval|before the text was approved}{ unless the task says so|}.",
        "No meetings {before 9:00|after 17:00|during lunch, 12:00 to 13:00}.",
        "Leave {10|15} minutes between two meetings.",
        "{Quote|Name} the message that a fact comes from.",
        "Invite only people whose address you have {seen|found}.",
        "{Keep answers short.|Answer in two or three sentences.}",
        "Treat attachments as {confidential|private}.",
    ]
    system = wording(
        "You {manage the mailbox and calendar of|are the personal assistant of} {owner}. Today is {day}.\n",
        owner=desk.owner,
        day=people.day(wording),
    )
    system += "\n".join(
        "- " + wording(rule) for rule in wording.shuffled(wording.some(rules, 3, 7))
    )
    if wording.chance(0.6):
        system += "\n\n" + guidelines(wording, 1, 3)
    if not dialect.is_structured or wording.chance(0.5):
        system += "\n\n" + describe_tools(wording, _TOOLS)
    request = wording(desk.topic.request, partner=desk.partner, day=desk.date)
    limit = wording(
        "{It should take {minutes} minutes, not before {start}|Plan {minutes} minutes, {start} or later}{.|, and nothing on a Friday.}",
        minutes=desk.minutes,
        start=desk.start,
    )
    if is_task_run:
        builder.add(
            "user", instruction(f"{system}\n\nTask: {request} {limit} Report when it is done.")
        )
        return
    if wording.chance(0.85):
        builder.add("system", instruction(system))
    builder.add("user", dialogue(request + " "), decision(limit))
