"""Calendar and e-mail: an assistant finds facts in messages and fixes meetings for a person."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    decision,
    dialogue,
    finding,
    instruction,
)
from memdecay.data.generator.dialects import (
    STRUCTURED_STYLES,
    TEXT_STYLES,
    Dialect,
    Tool,
    describe_tools,
)
from memdecay.data.generator.records import line_pieces
from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.vocabulary.mail import (
    TOPICS,
    Topic,
    mail_body,
    other_events,
    other_subjects,
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
class _Desk:
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


def write_office(wording: Wording, builder: TraceBuilder) -> None:
    """Write an errand that needs the mailbox and the calendar."""
    desk = _draw_desk(wording)
    dialect = Dialect(wording, wording.pick([*STRUCTURED_STYLES, *TEXT_STYLES, "openai"]))
    is_task_run = wording.chance(0.3)
    _brief(wording, builder, desk, dialect, is_task_run=is_task_run)
    _search(wording, builder, desk, dialect)
    _read(wording, builder, desk, dialect)
    if not is_task_run:
        _talk(wording, builder, desk)
    _check_day(wording, builder, desk, dialect)
    _arrange(wording, builder, desk, dialect, is_task_run=is_task_run)


def _draw_desk(wording: Wording) -> _Desk:
    topic = wording.pick(TOPICS)
    partner = people.full_name(wording)
    return _Desk(
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


def _brief(
    wording: Wording, builder: TraceBuilder, desk: _Desk, dialect: Dialect, *, is_task_run: bool
) -> None:
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


def _search(wording: Wording, builder: TraceBuilder, desk: _Desk, dialect: Dialect) -> None:
    subject = desk.topic.subject
    thought = (
        [
            decision(
                wording(
                    "{I look for the message first|The details must be in the mailbox, so I search there}."
                )
            )
        ]
        if wording.chance(0.6)
        else []
    )
    if wording.chance(0.25):
        dialect.call(builder, "search_mail", {"query": f"{desk.partner} {subject} final"}, *thought)
        dialect.result(builder, finding(wording("{No messages found.|0 results|[]}")))
        thought = [
            decision(
                wording(
                    "{Nothing with that query, I use fewer words|The query was too narrow; the name alone may do}."
                )
            )
        ]
    dialect.call(
        builder,
        "search_mail",
        {"query": wording.pick([desk.partner, subject, desk.partner.split()[1]])},
        *thought,
    )
    rows = [
        f"{wording.code('m-~~~~~~')} | {people.day(wording)} | {people.full_name(wording)} | {title}"
        for title in other_subjects(wording, wording.number(4, 14))
    ]
    place = wording.number(0, len(rows))
    rows.insert(
        place, f"{desk.mail_id} | {desk.date} | {desk.partner} <{desk.partner_email}> | {subject}"
    )
    dialect.result(builder, *line_pieces(rows, {place}, has_final_newline=False))


def _read(wording: Wording, builder: TraceBuilder, desk: _Desk, dialect: Dialect) -> None:
    thought = (
        [
            decision(
                wording(
                    "{The message {mail_id} fits|{mail_id} is the one}, I {open|read} it.",
                    mail_id=desk.mail_id,
                )
            )
        ]
        if wording.chance(0.5)
        else []
    )
    dialect.call(builder, "read_mail", {"mail_id": desk.mail_id}, *thought)
    lines, wanted = mail_body(
        wording, desk.owner, desk.partner, desk.partner_email, desk.topic, desk.detail
    )
    dialect.result(builder, *line_pieces(lines, wanted, has_final_newline=False))


def _talk(wording: Wording, builder: TraceBuilder, desk: _Desk) -> None:
    builder.add(
        "assistant",
        dialogue(
            wording(
                "{partner} writes that {detail} {Shall I look for a time?|Which day suits you?|Do you want me to set something up?}",
                partner=desk.partner.split()[0],
                detail=desk.detail,
            )
        ),
    )
    builder.add(
        "user",
        decision(
            wording(
                "{Yes, on|Take|Let's do} {date}{, the earlier the better|, and invite {partner}|}.",
                date=desk.date,
                partner=desk.partner.split()[0],
            )
        ),
    )


def _check_day(wording: Wording, builder: TraceBuilder, desk: _Desk, dialect: Dialect) -> None:
    thought = (
        [
            decision(
                wording(
                    "{I have to see what is free on {date}|Next: the calendar of that day}.",
                    date=desk.date,
                )
            )
        ]
        if wording.chance(0.5)
        else []
    )
    dialect.call(builder, "list_events", {"date": desk.date}, *thought)
    if wording.chance(0.2):
        dialect.result(builder, finding(wording("{[]|No events.|None}")))
        return
    events = other_events(wording)
    lines = [f"{start}-{end} {title}{note}" for start, end, title, note in events]
    dialect.result(builder, finding("\n".join(lines)))


def _arrange(
    wording: Wording, builder: TraceBuilder, desk: _Desk, dialect: Dialect, *, is_task_run: bool
) -> None:
    start = desk.start
    if not is_task_run:
        start = _settle(wording, builder, desk)
    title = wording("{subject}{ with {partner}|}", subject=desk.topic.subject, partner=desk.partner)
    reason = (
        [
            decision(
                wording(
                    "{start} is free and within the limits, so I {take it|book it}.", start=start
                )
            )
        ]
        if is_task_run
        else []
    )
    dialect.call(
        builder,
        "create_event",
        {
            "title": title,
            "start": f"{desk.date} {start}",
            "minutes": desk.minutes,
            "invite": desk.partner_email,
        },
        *reason,
    )
    if wording.chance(0.2):
        dialect.result(
            builder,
            finding(
                wording(
                    "{Error: calendar is locked by another client|Error 409: version conflict, try again}"
                )
            ),
        )
        dialect.call(
            builder,
            "create_event",
            {
                "title": title,
                "start": f"{desk.date} {start}",
                "minutes": desk.minutes,
                "invite": desk.partner_email,
            },
        )
    dialect.result(
        builder,
        finding(
            wording(
                "{Created event {id}|{ok}|Event saved: {id}, 1 invitation sent}",
                id=wording.code("ev-####"),
                ok=f'{{"id": "{wording.code("ev-####")}", "status": "confirmed"}}',
            )
        ),
    )
    if wording.chance(0.5):
        body = wording(
            desk.topic.reply,
            partner=desk.partner.split()[0],
            date=desk.date,
            start=start,
            owner=desk.owner.split()[0],
        )
        _mail(wording, builder, desk, dialect, body, is_task_run=is_task_run)
    report = wording(
        "{Done|It is arranged}: {title}, {date} at {start} for {minutes} minutes{, {partner} is invited|}.",
        title=title,
        date=desk.date,
        start=start,
        minutes=desk.minutes,
        partner=desk.partner,
    )
    builder.add("assistant", decision(report) if is_task_run else dialogue(report))
    if not is_task_run and wording.chance(0.7):
        builder.add(
            "user",
            dialogue(wording("{Thanks|Great, thank you|Wonderful}{!|, that's all for today.|.}")),
        )


def _settle(wording: Wording, builder: TraceBuilder, desk: _Desk) -> str:
    ask = dialogue(wording(" {Is that all right?|Shall I send the invitation?|OK for you?}"))
    offer = wording(
        "{I suggest|How about|I could book} {date}, {start}, {minutes} minutes{, with {partner}|}.",
        date=desk.date,
        start=desk.start,
        minutes=desk.minutes,
        partner=desk.partner,
    )
    builder.add("assistant", decision(offer), ask)
    if not wording.chance(0.4):
        builder.add(
            "user", decision(wording("{Yes|Fine|Perfect|Go ahead}{.|, do that.|, please.}"))
        )
        return desk.start
    later = people.clock(wording, 16, 17)
    builder.add(
        "user",
        decision(
            wording(
                "{Hm, no|Rather not|I have to fetch the kids then}. {Make it|Better} {later}.",
                later=later,
            )
        ),
    )
    builder.add("assistant", dialogue("Then it would be "), decision(f"{desk.date}, {later}."), ask)
    builder.add("user", decision(wording("{Yes, that works|OK|Good}{.|, book it.}")))
    return later


def _mail(
    wording: Wording,
    builder: TraceBuilder,
    desk: _Desk,
    dialect: Dialect,
    body: str,
    *,
    is_task_run: bool,
) -> None:
    lead: list[Piece] = []
    if not is_task_run:
        builder.add(
            "assistant",
            decision(
                wording(
                    "{Draft|I would write} to {email}:\n\n{body}\n",
                    email=desk.partner_email,
                    body=body,
                )
            ),
            dialogue(wording("\n{May I send it?|Send it like this?}")),
        )
        builder.add("user", decision(wording("{Send it|Yes, send}{.|, looks good.}")))
    else:
        lead = [decision("The other side should know as well, so I write a short message.")]
    dialect.call(
        builder,
        "send_mail",
        {"to": desk.partner_email, "subject": f"Re: {desk.topic.subject}", "body": body},
        *lead,
    )
    dialect.result(builder, finding(wording("{Sent.|Message accepted for delivery|None}")))
