"""Finding the message and the fact in it."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    TraceBuilder,
    decision,
    dialogue,
    finding,
)
from memdecay.data.generator.dialects import (
    Dialect,
)
from memdecay.data.generator.kinds.office.desk import Desk
from memdecay.data.generator.records import line_pieces
from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.vocabulary.mail import (
    mail_body,
    other_subjects,
)
from memdecay.data.generator.wording import Wording


def search(wording: Wording, builder: TraceBuilder, desk: Desk, dialect: Dialect) -> None:
    """Write the search for the message, with a failed query now and then."""
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


def read(wording: Wording, builder: TraceBuilder, desk: Desk, dialect: Dialect) -> None:
    """Write the reading of the message that holds the fact."""
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


def talk(wording: Wording, builder: TraceBuilder, desk: Desk) -> None:
    """Write what the assistant tells, and the day that the person picks."""
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
