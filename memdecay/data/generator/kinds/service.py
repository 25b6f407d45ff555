"""Customer service: an agent with tools and rules talks to a customer about one record."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    context,
    decision,
    dialogue,
    finding,
    instruction,
)
from memdecay.data.generator.dialects import (
    STRUCTURED_STYLES,
    Dialect,
    describe_tools,
)
from memdecay.data.generator.records import json_pieces
from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.vocabulary.services import DOMAINS, Domain, Request
from memdecay.data.generator.wording import Wording

_PAYMENTS = ("gift card", "credit card", "bank transfer", "PayBuddy account")


@dataclass(frozen=True, slots=True)
class _Case:
    """What one conversation is about."""

    domain: Domain
    request: Request
    name: str
    email: str
    record_id: str
    other_ids: tuple[str, ...]
    values: dict[str, str]


def write_service(wording: Wording, builder: TraceBuilder) -> None:
    """Write a customer's call from the greeting to the farewell."""
    case = _draw_case(wording)
    style = wording.pick([*STRUCTURED_STYLES, "openai", "tool_call", "json_block"])
    dialect = Dialect(wording, style)
    if not dialect.is_structured or wording.chance(0.8):
        _brief_agent(wording, builder, case, dialect)
    _open(wording, builder, case)
    _identify(wording, builder, case, dialect)
    if wording.chance(0.6):
        _ask_in_passing(wording, builder, case)
    _look_up_record(wording, builder, case, dialect)
    if case.request.refusal and wording.chance(0.35):
        _refuse(wording, builder, case, dialect)
    else:
        _agree_and_change(wording, builder, case, dialect)
    _part(wording, builder, case)


def _draw_case(wording: Wording) -> _Case:
    domain = wording.pick(DOMAINS)
    request = wording.pick(domain.requests)
    name = people.full_name(wording)
    ids = tuple(wording.code(domain.id_pattern) for _ in range(wording.number(2, 5)))
    values = {
        "noun": domain.noun,
        "id": ids[0],
        "item": wording.pick(domain.items),
        "choice": wording.pick(request.choices),
        "amount": f"{wording.number(4, 180)}.{wording.pick(['00', '50', '90', '95'])} EUR",
        "payment": f"{wording.pick(_PAYMENTS)} ending in {wording.code('####')}",
        "phone": wording.code("+49 30 #######"),
        "refusal": request.refusal,
    }
    email = people.email_of(name, wording)
    return _Case(domain, request, name, email, ids[0], ids[1:], values)


def _brief_agent(wording: Wording, builder: TraceBuilder, case: _Case, dialect: Dialect) -> None:
    rules = wording.some(case.domain.policies, 3, 7)
    bullet = wording.pick(["- ", "* ", ""])
    parts = [
        wording(
            "{You are|You work as} {the service agent|a customer service assistant} of {company}, "
            "{a|a friendly} {business}. {Today is|The current date is} {day}.",
            company=people.company(wording),
            business=case.domain.business,
            day=people.day(wording),
        ),
        wording("{## Rules|Policy:|Keep to these rules.|# How you work}\n")
        + "\n".join(
            f"{bullet or f'{i}. '}{wording(rule)}" for i, rule in enumerate(wording.shuffled(rules))
        ),
        wording(
            "{Identify the customer first|Before anything else, identify the customer} by "
            "{e-mail address|e-mail, or name and zip code}. {State what you are about to change and "
            "wait for a clear yes|Get an explicit confirmation} before any tool that changes data. "
            "{Make one tool call at a time|Either call a tool or write to the customer, never both}."
        ),
    ]
    if not dialect.is_structured or wording.chance(0.5):
        parts.append(describe_tools(wording, case.domain.tools()))
    if not dialect.is_structured:
        parts.append(
            f"Write a call exactly in the format of {dialect.style}, and nothing after it."
        )
    builder.add("system", instruction("\n\n".join(parts)))


def _open(wording: Wording, builder: TraceBuilder, case: _Case) -> None:
    if wording.chance(0.3):
        builder.add(
            "assistant",
            dialogue(
                wording("{Hello|Welcome|Hi}! {How can I help you today?|What can I do for you?}")
            ),
        )
    builder.add("user", dialogue(wording(case.request.opening, **case.values)))
    builder.add(
        "assistant",
        dialogue(
            wording(
                "{I'm happy to help with that|Sure, let's look at it|Sorry to hear that, let me see what I can do}. "
                "{Could you give me|May I have|Please tell me} {your e-mail address|the e-mail you registered with}"
                "{ so that I can find you| first}?"
            )
        ),
    )


def _identify(wording: Wording, builder: TraceBuilder, case: _Case, dialect: Dialect) -> None:
    zip_code = wording.code("#####")
    by_email = wording.chance(0.65)
    query = case.email if by_email else f"{case.name}, {zip_code}"
    if by_email:
        text = wording("{It's|Sure:|That would be} {query}{.|, thanks.}", query=query)
    else:
        text = wording(
            "{I don't remember which e-mail I used|I no longer have that account}. My name is {name}, zip {zip}.",
            name=case.name,
            zip=zip_code,
        )
    builder.add("user", decision(text))
    if not by_email and wording.chance(0.4):
        wrong = f"{case.name.split()[0]}, {zip_code}"
        dialect.call(builder, "find_customer", {"query": wrong})
        dialect.result(
            builder,
            finding(wording("{Error: customer not found|[]|{nothing}}", nothing='{"matches": 0}')),
        )
    dialect.call(builder, "find_customer", {"query": query})
    dialect.result(builder, *_customer_record(wording, case))


def _customer_record(wording: Wording, case: _Case) -> tuple[Piece, ...]:
    first, last = case.name.split(" ", 1)
    ids = wording.shuffled([case.record_id, *case.other_ids])
    record = {
        "name": {"first": first, "last": last},
        "address": people.address(wording),
        "language": wording.pick(["en", "de", "pt"]),
        "newsletter": wording.chance(0.5),
        "created": people.day(wording),
        "segments": wording.some(["spring-mail", "app", "loyal", "b2c", "survey-2030"], 1, 4),
        "last_login_ip": wording.code("10.#.2#.1##"),
        "customer_id": wording.code("cus_~~~~~~"),
        f"{case.domain.noun}s": ids,
    }
    wanted = {"customer_id", f"{case.domain.noun}s"}
    return json_pieces(record, wanted, is_indented=wording.chance(0.3))


def _ask_in_passing(wording: Wording, builder: TraceBuilder, case: _Case) -> None:
    question, answer = wording.pick(case.domain.questions)
    builder.add(
        "assistant",
        dialogue(
            wording(
                "Thank you, {first}. {Which {noun} is it about?|Anything else I should know?}",
                first=case.name.split()[0],
                noun=case.domain.noun,
            )
        ),
    )
    builder.add("user", dialogue(wording(question)))
    builder.add(
        "assistant",
        dialogue(
            wording(answer)
            + wording(
                " {Now, which {noun} do you mean?|So which {noun} is it?}", noun=case.domain.noun
            )
        ),
    )


def _look_up_record(wording: Wording, builder: TraceBuilder, case: _Case, dialect: Dialect) -> None:
    knows_id = wording.chance(0.5)
    if knows_id:
        text = wording(
            "{The number is|It is|I think it's} {id}, {the one with|about} the {item}.",
            **case.values,
        )
    else:
        text = wording(
            "{No idea what the number is|I don't have the number at hand}, it's the {item}{.|, I think the latest one.}",
            **case.values,
        )
    builder.add("user", decision(text))
    if not knows_id:
        for other in case.other_ids[: wording.number(0, 2)]:
            dialect.call(builder, f"get_{case.domain.noun}", {f"{case.domain.noun}_id": other})
            dialect.result(builder, *_record(wording, case, other, is_match=False))
    dialect.call(builder, f"get_{case.domain.noun}", {f"{case.domain.noun}_id": case.record_id})
    dialect.result(builder, *_record(wording, case, case.record_id, is_match=True))


def _record(wording: Wording, case: _Case, record_id: str, *, is_match: bool) -> tuple[Piece, ...]:
    others = [item for item in case.domain.items if item != case.values["item"]]
    head = {
        f"{case.domain.noun}_id": record_id,
        "item": case.values["item"] if is_match else wording.pick(others),
        "status": wording.pick(case.domain.states),
        "total": case.values["amount"] if is_match else f"{wording.number(5, 300)}.00 EUR",
        "payment": case.values["payment"] if is_match else wording.pick(_PAYMENTS),
    }
    bulk: dict[str, object] = {
        key: wording.pick(options)
        for key, options in wording.shuffled(list(case.domain.bulk.items()))
    }
    bulk["history"] = [
        {
            "at": f"{people.day(wording)}T{people.clock(wording)}",
            "by": wording.code("svc-##"),
            "event": event,
        }
        for event in wording.some(
            ["created", "mail sent", "label printed", "synced", "audited", "invoice stored"], 0, 3
        )
    ]
    wanted = set(head) if is_match else {f"{case.domain.noun}_id", "item"}
    record = {**head, **bulk} if wording.chance(0.6) else {**bulk, **head}
    return json_pieces(record, wanted, is_indented=wording.chance(0.25))


def _agree_and_change(
    wording: Wording, builder: TraceBuilder, case: _Case, dialect: Dialect
) -> None:
    builder.add(
        "assistant",
        dialogue(
            wording(
                "{I have found it|Thanks, I see the {noun}|Got it}. {What exactly should I change?|What would you like me to do with it?}",
                **case.values,
            )
        ),
    )
    builder.add("user", decision(wording(case.request.wish, **case.values)))
    values = dict(case.values)
    _propose(wording, builder, case.request, values)
    if wording.chance(0.3):
        rest = [choice for choice in case.request.choices if choice != values["choice"]]
        values["choice"] = wording.pick(rest)
        builder.add(
            "user",
            decision(
                wording(
                    "{Wait, I changed my mind|Hm, actually no}: {make it|I'd rather have} {choice}.",
                    **values,
                )
            ),
        )
        _propose(wording, builder, case.request, values)
    builder.add(
        "user",
        decision(
            wording(
                "{Yes|Yes, please|That's right, go ahead|Perfect, do it|Confirmed}{.|!|, and thank you.}"
            )
        ),
    )
    arguments = {f"{case.domain.noun}_id": case.record_id, "change": values["choice"]}
    dialect.call(builder, case.request.tool, arguments)
    if wording.chance(0.25):
        error = wording(
            "Error: {payment method declined|service temporarily unavailable (code 503)|field 'change' is ambiguous}"
        )
        dialect.result(builder, finding(error))
        arguments["change"] = f"{values['choice']} (customer confirmed)"
        dialect.call(builder, case.request.tool, arguments)
    dialect.result(builder, *_change_result(wording, case, values))
    builder.add(
        "assistant",
        dialogue(
            wording(
                "{Done!|All set.|That worked.} {The change to {noun} {id} is booked|{noun} {id} has been updated} and {you will get an e-mail|a confirmation is on its way}. {Is there anything else?|Can I do anything else for you?}",
                **values,
            )
        ),
    )


def _propose(
    wording: Wording, builder: TraceBuilder, request: Request, values: dict[str, str]
) -> None:
    before = dialogue(wording("{Thank you for the details. |Let me sum that up. ||Alright. }"))
    ask = wording(
        "\n{Please confirm with yes.|Shall I go ahead?|Is that correct?|Do you want me to do this?}"
    )
    builder.add("assistant", before, decision(wording(request.proposal, **values)), dialogue(ask))


def _change_result(wording: Wording, case: _Case, values: dict[str, str]) -> tuple[Piece, ...]:
    if wording.chance(0.4):
        return (
            finding(
                wording(
                    "{OK|success|Change saved}: {noun} {id}, reference {code}",
                    code=wording.code("RF-#####"),
                    **values,
                )
            ),
        )
    record = {
        "status": "ok",
        f"{case.domain.noun}_id": case.record_id,
        "change": values["choice"],
        "reference": wording.code("RF-#####"),
        **{key: wording.pick(options) for key, options in case.domain.bulk.items()},
    }
    return json_pieces(record, {"status", f"{case.domain.noun}_id", "change", "reference"})


def _refuse(wording: Wording, builder: TraceBuilder, case: _Case, dialect: Dialect) -> None:
    builder.add(
        "assistant",
        dialogue(
            wording("{I have it here|I see it}. {What should happen with it?|What do you need?}")
        ),
    )
    builder.add("user", decision(wording(case.request.wish, **case.values)))
    builder.add(
        "assistant",
        dialogue(
            wording(
                "{I'm sorry|Unfortunately}, {I can't do that|that is not possible}: {refusal}. {I know this is annoying.|}",
                **case.values,
            )
        ),
    )
    builder.add(
        "user",
        dialogue(
            wording(
                "{Really? Is there no way at all?|That's disappointing. Can't you make an exception?|But your colleague told me it would be fine.}"
            )
        ),
    )
    if wording.chance(0.5):
        dialect.call(
            builder,
            "transfer_to_human",
            {"summary": f"{case.request.tool} for {case.record_id}: {case.request.refusal}"},
        )
        dialect.result(builder, finding("Transfer successful"))
        builder.add(
            "assistant",
            dialogue(
                wording(
                    "{I am handing you over to a colleague now|You are being transferred}, please {hold on|stay in the chat}."
                )
            ),
        )
    else:
        builder.add(
            "assistant",
            dialogue(
                wording(
                    "{I understand, but the rules leave me no room here|There is no exception I could make}. {I am sorry.|Thank you for your patience.}"
                )
            ),
        )


def _part(wording: Wording, builder: TraceBuilder, case: _Case) -> None:
    if wording.chance(0.6):
        question, answer = wording.pick(case.domain.questions)
        builder.add(
            "user", dialogue(wording("{One more thing. |Oh, and this: |}") + wording(question))
        )
        builder.add("assistant", dialogue(wording(answer)))
    thanks = dialogue(
        wording(
            "{No, that's all|That was everything}, {thanks|thank you for the help|have a nice day}{.|!}"
        )
    )
    stop = (
        [context(wording.pick(["\n\n###STOP###", "\nTERMINATE", "\n<END>"]))]
        if wording.chance(0.4)
        else []
    )
    builder.add("user", thanks, *stop)
