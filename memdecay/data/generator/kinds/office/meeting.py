"""Agreeing on a time, booking it and writing about it."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    decision,
    dialogue,
    finding,
)
from memdecay.data.generator.dialects import (
    Dialect,
)
from memdecay.data.generator.kinds.office.desk import Desk
from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.vocabulary.mail import (
    other_events,
)
from memdecay.data.generator.wording import Wording


def check_day(wording: Wording, builder: TraceBuilder, desk: Desk, dialect: Dialect) -> None:
    """Write the look into the calendar of that day."""
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


def arrange(
    wording: Wording, builder: TraceBuilder, desk: Desk, dialect: Dialect, *, is_task_run: bool
) -> None:
    """Write the agreement, the booking, perhaps a message, and the report."""
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


def _settle(wording: Wording, builder: TraceBuilder, desk: Desk) -> str:
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
    desk: Desk,
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
