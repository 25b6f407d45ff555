"""What the user of a long session fixes at the start."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.vocabulary.incidents import SERVICES
from memdecay.data.generator.wording import Wording


@dataclass(frozen=True, slots=True)
class Facts:
    """What the user fixes at the start."""

    owner: str
    root: str
    branch: str
    port: str
    service: str
    order_id: str
    payment: str
    contact: str
    contact_email: str
    ticket: str
    deadline: str
    prefix: str


def draw_facts(wording: Wording) -> Facts:
    """Return facts for one session."""
    contact = people.full_name(wording)
    service = wording.pick(SERVICES)
    return Facts(
        owner=people.full_name(wording),
        root=f"/srv/{people.invented_place(wording).lower()}/{service}",
        branch=f"fix/{wording.pick(['amber', 'cobalt', 'violet', 'copper'])}-{wording.pick(['heron', 'otter', 'lynx', 'wren'])}-{wording.code('##')}",
        port=wording.code("8###"),
        service=service,
        order_id=wording.code("W-@@#####"),
        payment=f"gift card {wording.code('GC-####-@@')}",
        contact=contact,
        contact_email=people.email_of(contact, wording),
        ticket=wording.code("OPS-####"),
        deadline=people.day(wording),
        prefix=wording.code("rel_@@##").lower(),
    )
