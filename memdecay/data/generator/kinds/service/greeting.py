"""The first part of a service call: rules, greeting, finding the customer and the record."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    TraceBuilder,
    decision,
    dialogue,
    finding,
    instruction,
)
from memdecay.data.generator.dialects import (
    Dialect,
    describe_tools,
)
from memdecay.data.generator.kinds.service.case import Case, customer_record, record
from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.wording import Wording


def brief_agent(wording: Wording, builder: TraceBuilder, case: Case, dialect: Dialect) -> None:
    """Write the system message: role, rules, tools."""
    rules = wording.some(case.domain.policies, 3, 7)
    bullet = wording.pick(["- ", "* ", ""])
    parts = [
        wording(
            "{You are|You work as} {the service agent|a customer service assistant} of {company}, "
            "{business}. {Today is|The current date is} {day}.",
            company=people.company(wording),
            business=case.domain.business,
            day=people.day(wording),
        ),
        wording("{## Rules|Policy:|Keep to these rules.|# How you work}\n")
        + "\n".join(
            f"{bullet or f'{i}. '}{wording(rule)}"
            for i, rule in enumerate(wording.shuffled(rules), 1)
        ),
        wording(
            "{Identify the customer first|Before anything else, identify the customer} by "
            "{e-mail address|e-mail, or name and zip code}. {State what you are about to change and "
            "wait for a clear yes|Get an explicit confirmation} before any tool that changes data. "
            "{Make one tool call at a time|Either call a tool or write to the customer, never both}."
        ),
    ]
    if wording.chance(0.4):
        parts.append(guidelines(wording, 1, 2))
    if not dialect.is_structured or wording.chance(0.5):
        parts.append(describe_tools(wording, case.domain.tools()))
    if not dialect.is_structured:
        parts.append(
            f"Write a call exactly in the format of {dialect.style}, and nothing after it."
        )
    builder.add("system", instruction("\n\n".join(parts)))


def open_call(wording: Wording, builder: TraceBuilder, case: Case) -> None:
    """Write the greeting and the question for an e-mail address."""
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


def identify(wording: Wording, builder: TraceBuilder, case: Case, dialect: Dialect) -> None:
    """Write how the customer is found, with a failed look-up now and then."""
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
    dialect.result(builder, *customer_record(wording, case))


def ask_in_passing(wording: Wording, builder: TraceBuilder, case: Case) -> None:
    """Write a customer's question that has nothing to do with the case."""
    question, answer = case.domain.questions[0]
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


def look_up_record(wording: Wording, builder: TraceBuilder, case: Case, dialect: Dialect) -> None:
    """Write the search for the record among those of the customer."""
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
            dialect.result(builder, *record(wording, case, other, is_match=False))
    dialect.call(builder, f"get_{case.domain.noun}", {f"{case.domain.noun}_id": case.record_id})
    dialect.result(builder, *record(wording, case, case.record_id, is_match=True))
