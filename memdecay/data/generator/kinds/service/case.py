"""What a service call is about, and the records that the tools return."""

from __future__ import annotations

import json
from dataclasses import dataclass

from memdecay.data.generator.builder import Piece, context, finding, surround
from memdecay.data.generator.records import json_pieces
from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.vocabulary.services import DOMAINS, Domain, Request
from memdecay.data.generator.wording import Wording

_PAYMENTS = ("gift card", "credit card", "bank transfer", "PayBuddy account")


@dataclass(frozen=True, slots=True)
class Case:
    """What one conversation is about."""

    domain: Domain
    request: Request
    name: str
    email: str
    record_id: str
    other_ids: tuple[str, ...]
    values: dict[str, str]


def draw_case(wording: Wording) -> Case:
    """Return a customer, a record and a wish."""
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
        "cost": f"{wording.number(2, 60)}.{wording.pick(['00', '50', '90', '95'])} EUR",
        "payment": f"{wording.pick(_PAYMENTS)} ending in {wording.code('####')}",
        "phone": wording.code("+49 30 #######"),
        "refusal": request.refusal,
    }
    email = people.email_of(name, wording)
    return Case(domain, request, name, email, ids[0], ids[1:], values)


def customer_record(wording: Wording, case: Case) -> tuple[Piece, ...]:
    """Return what the look-up of the customer gives; id and records are what it is for."""
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


def record(wording: Wording, case: Case, record_id: str, *, is_match: bool) -> tuple[Piece, ...]:
    """Return a record; one that turns out not to match is bulk after its first fields."""
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


def change_result(wording: Wording, case: Case, values: dict[str, str]) -> tuple[Piece, ...]:
    """Return what the tool that makes the change answers."""
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


def option_list(wording: Wording, case: Case) -> tuple[Piece, ...]:
    """Return the options for a change; those that can be had are what the call is for."""
    names = [
        case.values["choice"],
        *(c for c in case.request.choices if c != case.values["choice"]),
    ]
    rows = []
    for i, name in enumerate(names):
        row = {
            "option": name,
            "price": case.values["cost"] if i == 0 else f"{wording.number(2, 90)}.00 EUR",
            "available": i == 0 or wording.chance(0.7),
            "code": wording.code("@@-####"),
            "until": f"{people.day(wording)}T{people.clock(wording)}",
        }
        text = json.dumps(row)
        rows.append(finding(text) if row["available"] else context(text))
    ends = [", "] * (len(rows) - 1) + ["]"]
    pieces = [Piece(row.text + end, row.region) for row, end in zip(rows, ends, strict=True)]
    return surround(pieces, "[")
