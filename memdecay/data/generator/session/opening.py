"""How a long session begins and ends: the facts are fixed, and all of them are reported."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from collections.abc import Sequence

from memdecay.data.generator.builder import TraceBuilder, decision, dialogue, instruction
from memdecay.data.generator.dialects import Tool, describe_tools
from memdecay.data.generator.session.facts import Facts
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.wording import Wording

TOOLS = (
    Tool("run", "Run a command in the shell and return what it prints.", {"command": "command line"}),
    Tool("query", "Run a read-only SQL query on the sales database.", {"sql": "the query"}),
    Tool("get_order", "Return an order with its history.", {"order_id": "id of the order"}),
    Tool("change_order", "Change an order; needs an earlier agreement.", {"order_id": "id", "change": "what to change", "payment": "means of payment"}),
    Tool("read_mail", "Return a message with its quoted history.", {"mail_id": "id of the message"}),
    Tool("send_mail", "Send a message.", {"to": "address", "subject": "subject", "body": "text"}),
)  # fmt: skip


def open_session(wording: Wording, builder: TraceBuilder, facts: Facts) -> None:
    """Write the instructions and the facts that hold for the session."""
    system = f"You are the operations assistant of {facts.owner}. You have a shell, the sales database, the order system and the mailbox.\n\n"
    builder.add(
        "system",
        instruction(system + guidelines(wording, 2, 4) + "\n\n" + describe_tools(wording, TOOLS)),
    )
    builder.add(
        "user",
        dialogue(
            wording(
                "{Good morning|Hello}! {There is a lot to do today|We have a long list today}. "
            )
        ),
        decision(
            f"Please note for the whole session: the project lives in {facts.root} and all changes go to branch {facts.branch}. "
            f"The service {facts.service} listens on port {facts.port}. My order is {facts.order_id}, and extra costs go on {facts.payment}. "
            f"{facts.contact} ({facts.contact_email}) gets every report, with ticket {facts.ticket} in the subject. "
            f"Everything must be done by {facts.deadline}, and release files start with {facts.prefix}."
        ),
    )
    builder.add(
        "assistant",
        dialogue(
            f"Noted: project {facts.root}, branch {facts.branch}, port {facts.port}, order {facts.order_id}, payment by {facts.payment}, reports to {facts.contact_email} with {facts.ticket}, deadline {facts.deadline}, prefix {facts.prefix}. "
            + wording("{What comes first?|Where shall I begin?}")
        ),
    )


def close_session(builder: TraceBuilder, facts: Facts, outcomes: Sequence[str]) -> None:
    """Write the closing report, which needs the early facts and all outcomes."""
    builder.add(
        "user",
        dialogue(
            "That was the last item. Please write the closing report, with all the names and numbers we agreed on."
        ),
    )
    rows = "\n".join(f"- {outcome}" for outcome in outcomes)
    builder.add(
        "assistant",
        decision(
            f"Closing report for {facts.owner}\n{rows}\n- Project {facts.root} on branch {facts.branch}; {facts.service} listens on port {facts.port}.\n"
            f"- Order {facts.order_id}, extra costs on {facts.payment}.\n- Sent to {facts.contact} <{facts.contact_email}> with {facts.ticket}, deadline {facts.deadline}, release prefix {facts.prefix}."
        ),
    )
