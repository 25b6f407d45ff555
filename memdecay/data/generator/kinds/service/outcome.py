"""The second part of a service call: proposal, change or refusal, farewell."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    TraceBuilder,
    context,
    decision,
    dialogue,
    finding,
)
from memdecay.data.generator.dialects import (
    Dialect,
)
from memdecay.data.generator.kinds.service.case import Case, change_result, option_list
from memdecay.data.generator.vocabulary.services import Request
from memdecay.data.generator.wording import Wording

_TOOLS_WITH_OPTIONS = frozenset(
    {
        "exchange_item",
        "change_dates",
        "add_service",
        "change_tariff",
        "approve_repair",
        "extend_rental",
    }
)


def agree_and_change(wording: Wording, builder: TraceBuilder, case: Case, dialect: Dialect) -> None:
    """Write wish, proposal, confirmation and change."""
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
    if case.request.tool in _TOOLS_WITH_OPTIONS and wording.chance(0.7):
        _list_options(wording, builder, case, dialect)
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
    dialect.result(builder, *change_result(wording, case, values))
    builder.add(
        "assistant",
        dialogue(
            wording(
                "{Done!|All set.|That worked.} {The change to {noun} {id} is booked|Your {noun} {id} has been updated} and {you will get an e-mail|a confirmation is on its way}. {Is there anything else?|Can I do anything else for you?}",
                **values,
            )
        ),
    )


def _list_options(wording: Wording, builder: TraceBuilder, case: Case, dialect: Dialect) -> None:
    arguments = {f"{case.domain.noun}_id": case.record_id}
    dialect.call(builder, "list_options", arguments)
    dialect.result(builder, *option_list(wording, case))


def _propose(
    wording: Wording, builder: TraceBuilder, request: Request, values: dict[str, str]
) -> None:
    before = dialogue(wording("{Thank you for the details. |Let me sum that up. ||Alright. }"))
    ask = wording(
        "\n{Please confirm with yes.|Shall I go ahead?|Is that correct?|Do you want me to do this?}"
    )
    builder.add(
        "assistant",
        before,
        decision(_capitalised(wording(request.proposal, **values))),
        dialogue(ask),
    )


def refuse(wording: Wording, builder: TraceBuilder, case: Case, dialect: Dialect) -> None:
    """Write a refusal, and perhaps the transfer to a human."""
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


def part(wording: Wording, builder: TraceBuilder, case: Case) -> None:
    """Write the farewell."""
    if wording.chance(0.6):
        question, answer = case.domain.questions[-1]
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


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]
