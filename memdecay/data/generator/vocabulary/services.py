"""Companies that a customer can turn to: their records, rules and the changes people ask for."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memdecay.data.generator.dialects import Tool


@dataclass(frozen=True, slots=True)
class Request:
    """A change that a customer asks for.

    Attributes:
        opening: What the customer says first (template).
        wish: The details that fix the change (template with ``{choice}``).
        choices: Values that ``{choice}`` may take.
        tool: Name of the tool that makes the change.
        proposal: The agent's proposal, as far as it fixes something (template).
        refusal: Why the rules forbid it; empty if they never do.
    """

    opening: str
    wish: str
    choices: tuple[str, ...]
    tool: str
    proposal: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Domain:
    """A line of business.

    Attributes:
        business: What the company does.
        noun: What a record is called, for example ``booking``.
        id_pattern: Shape of a record's id, for `Wording.code`.
        policies: Rules of the agent (templates).
        items: What the records are about.
        bulk: Fields of a record that hardly matter, with values to pick from.
        states: States of a record.
        requests: Changes that customers ask for.
        questions: Questions in passing, each with the answer.
    """

    business: str
    noun: str
    id_pattern: str
    policies: tuple[str, ...]
    items: tuple[str, ...]
    bulk: Mapping[str, tuple[str, ...]]
    states: tuple[str, ...]
    requests: tuple[Request, ...]
    questions: tuple[tuple[str, str], ...]

    def tools(self) -> list[Tool]:
        """Return the tools of the agent, those that read first."""
        record_id = f"{self.noun}_id"
        changes = dict.fromkeys(request.tool for request in self.requests)
        return [
            Tool(
                "find_customer",
                "Look a customer up by e-mail address or name and zip code.",
                {"query": "e-mail address, or name and zip code"},
            ),
            Tool(
                f"get_{self.noun}",
                f"Get all details of one {self.noun}.",
                {record_id: f"id of the {self.noun}, for example {self.id_pattern}"},
            ),
            *(
                Tool(
                    name,
                    f"{name.replace('_', ' ').capitalize()}; asks for a confirmed change.",
                    {record_id: f"id of the {self.noun}", "change": "what to change it to"},
                )
                for name in changes
            ),
            Tool(
                "list_options", f"List what a {self.noun} can be changed to.", {record_id: "its id"}
            ),
            Tool("transfer_to_human", "Hand the customer over.", {"summary": "what was tried"}),
        ]


PARCELS = Domain(
    business="an online shop for household goods",
    noun="order",
    id_pattern="#W#######",
    policies=(
        "An order can be changed only while its status is {open|pending}; shipped orders go through a return.",
        "Returns are accepted within {30|21|45} days of delivery, refunds go to the original payment method or a gift card.",
        "Never {reveal|share} a customer's full address before the customer has been {identified|authenticated}.",
        "Exchange an item only for another variant of the same product.",
        "Price differences are settled before the change, never after it.",
        "{One|A single} exchange per order is possible; collect all items before you call the tool.",
        "If a parcel is reported lost, open an investigation and {promise an answer within five days|do not refund at once}.",
    ),
    items=("cast-iron skillet", "desk lamp", "wool blanket", "electric kettle", "bookshelf speaker", "garden hose", "stand mixer", "yoga mat", "air purifier", "picture frame set"),
    bulk={
        "warehouse": ("WH-EAST-4", "WH-NORTH-1", "WH-7"),
        "packing": ("carton, recycled", "padded envelope", "double carton"),
        "tax_code": ("A7-STD", "B2-RED", "A9-STD"),
        "gift_wrap": ("none", "plain paper"),
        "carrier_route": ("R-118/hub-3/van-22", "R-406/hub-1/van-09", "R-077/hub-5/locker"),
        "customs": ("not required", "pre-cleared, form CN23 on file"),
    },
    states=("pending", "delivered", "in transit"),
    requests=(
        Request(
            "{Hello|Hi}, {I'd like to swap something I ordered|one of the things you sent me is not what I wanted}.",
            "I want the {item} exchanged for {choice}{, and the difference should go on my gift card|. Put the difference on the card I paid with}.",
            ("the larger size", "the navy blue one", "the version without a timer", "the two-pack"),
            "exchange_item",
            "{Here is what I would do|This is the exchange}: {item} in {noun} {id} is replaced by {choice}; the difference of {cost} goes to {payment}.\n",
            "an order that has left the warehouse can no longer be altered",
        ),
        Request(
            "{Good morning|Hey}. {My parcel should go somewhere else|Can I still change where an order is sent}?",
            "Please send it to {choice} instead{.|, I will not be home.}",
            ("14 Foundry Road, 40210 Kassel", "the pick-up point at the station", "my office at 3 Kiln Street"),
            "change_address",
            "{noun} {id} will be delivered to {choice}; the carrier fee of {cost} is charged to {payment}.\n",
        ),
        Request(
            "{I need to send something back.|I want to return an item, how does that work?}",
            "It's the {item}. {choice}. {Refund it to my gift card please|I'd like the money back on the original card}.",
            ("It arrived with a crack", "The colour is nothing like the picture", "It hums even when it is off"),
            "return_item",
            "{item} from {noun} {id} goes back, reason: {choice}; {amount} is refunded to {payment}.\n",
            "the return window of this order has closed",
        ),
    ),
    questions=(
        ("How long does {a refund|the money} usually take?", "Refunds {normally|usually} take three to seven working days, depending on your bank."),
        ("Do you ship to islands as well?", "Yes, we do, but {delivery takes two to four days longer|a small surcharge applies there}."),
    ),
)  # fmt: skip

HOTEL = Domain(
    business="a small hotel group by the sea",
    noun="booking",
    id_pattern="HB-####@",
    policies=(
        "Free cancellation ends {48|72} hours before arrival; after that the first night is charged.",
        "Room upgrades need a paid-up booking and {a free room in the category|availability on all nights}.",
        "Dogs are allowed in ground-floor rooms only, one per room.",
        "Do not quote prices that a tool has not returned.",
        "Breakfast can be added or removed until {8 pm of the day before|noon on arrival day}.",
        "Guests must name the person who checks in; names cannot be changed twice.",
        "Treat complaints about noise as urgent and {offer another room|file a ticket} at once.",
    ),
    items=("double room with balcony", "single room, courtyard side", "family suite", "attic studio", "twin room with harbour view"),
    bulk={
        "rate_plan": ("FLEX-BAR-2", "NONREF-EARLY", "CORP-17"),
        "channel": ("web", "partner: wanderdesk", "phone"),
        "housekeeping_notes": ("feather-free pillows; towels every second day", "extra blanket in wardrobe", "none"),
        "city_tax": ("2.10 per person and night", "included"),
        "amenities": ("kettle, safe, hairdryer, desk", "safe, minibar (empty), bathrobe", "cot on request, desk"),
        "pms_revision": ("r118.4", "r121.0"),
    },
    states=("confirmed", "paid", "option"),
    requests=(
        Request(
            "{Hello there|Hi}, I have a stay coming up and {the dates no longer work|I need to move it}.",
            "{Move it to|Please shift it to} {choice}, {nothing that costs more than before|same room if possible}.",
            ("the weekend after", "9 to 12 June", "a Sunday arrival", "two nights earlier"),
            "change_dates",
            "{Your booking|Booking} {id} ({item}) moves to {choice} for {cost} more, charged to {payment}.\n",
        ),
        Request(
            "Can I {add something to|extend} my {reservation|booking}?",
            "I'd like {choice} {for the whole stay|for both of us}, paid with {payment}.",
            ("breakfast", "a parking space", "late check-out until 2 pm", "a cot for the baby"),
            "add_service",
            "I would add {choice} to {noun} {id} for {cost}, paid by {payment}.\n",
        ),
        Request(
            "I'm afraid we {have to cancel|can't make it}.",
            "Cancel it {all|completely}, the reason is {choice}.",
            ("illness", "a changed flight", "a double booking on my side"),
            "cancel_booking",
            "{noun} {id} for the {item} is cancelled ({choice}) and {amount} goes back to {payment}.\n",
            "the period of free cancellation ended before this conversation",
        ),
    ),
    questions=(
        ("Is there a train to you from the airport?", "There is: the regional train takes about forty minutes and {stops|halts} two streets from us."),
        ("Can we leave our bags before check-in?", "Of course, the reception keeps them from seven in the morning."),
    ),
)  # fmt: skip

BROADBAND = Domain(
    business="a regional provider of fibre and mobile lines",
    noun="contract",
    id_pattern="C##-@@-####",
    policies=(
        "Ask for the router's light pattern before you {reset a line|run a line test}.",
        "A tariff may be changed once per billing month; downgrades start {with the next month|after the minimum term}.",
        "A technician visit needs a phone number and a time slot {fixed|confirmed} by the customer.",
        "Credits above {20|25} euros need a human agent.",
        "Never promise a {speed|bandwidth}; quote the measured value.",
        "When the tool reports an outage in the area, say so and do not book a technician.",
    ),
    items=("Fibre 250", "Fibre 1000", "Mobile M", "Home phone flat", "Fibre 100 with TV"),
    bulk={
        "ont_serial": ("ALCLB3F2A9D1", "HWTC7741C0DE", "ZTEGC8A01B22"),
        "vlan": ("7 (pppoe)", "132 (ipoe)"),
        "firmware": ("07.57-r102", "4.16.2b", "2.0.19"),
        "line_history": ("resync 3x in 30 d; crc 0; fec 118", "resync 0x; crc 4; fec 20931"),
        "marketing_consent": ("post only", "none", "mail and phone"),
        "billing_cycle": ("1st of month", "16th of month"),
    },
    states=("active", "active, in minimum term", "suspended"),
    requests=(
        Request(
            "My internet {keeps dropping|is very slow} {since Tuesday|in the evenings}.",
            "{The light is blinking red|It blinks orange twice, then stops}. A technician can come {choice}, call me on {phone}.",
            ("Thursday between 8 and 10", "any day after 5 pm", "Saturday morning"),
            "book_technician",
            "Technician for {noun} {id}: {choice}, phone {phone}, no charge.\n",
        ),
        Request(
            "I'd like to {talk about|change} my tariff.",
            "{I want|Please book} {choice} {from next month on|as soon as you can}, {no new minimum term|and keep my number}.",
            ("Fibre 500", "Mobile S", "the plan without television"),
            "change_tariff",
            "{noun} {id}: {item} is replaced by {choice} at {cost} a month, billed to {payment}.\n",
            "the tariff was already changed once in this billing month",
        ),
        Request(
            "There's {a charge on my bill I don't recognise|something wrong with my invoice}.",
            "It's the {cost} for {choice}; {I never ordered that|please take it off}.",
            ("a roaming pack", "router rental", "directory calls"),
            "grant_credit",
            "A credit of {cost} for {choice} on {noun} {id}, paid back to {payment}.\n",
        ),
    ),
    questions=(
        ("Will my number stay the same?", "Yes, the number stays with you."),
        ("Do I need a new router for that?", "{No|Not for this}, the one you have supports it."),
    ),
)  # fmt: skip

BICYCLES = Domain(
    business="a bicycle repair and rental service",
    noun="ticket",
    id_pattern="T-######",
    policies=(
        "Repairs above {80|120} euros need the customer's approval in writing.",
        "A rental bike may be extended by at most {7|10} days, if nobody has reserved it.",
        "Collect the frame number before a theft report.",
        "Parts that are out of stock may be replaced by an equal or better part, same price.",
        "Say nothing about warranty claims; {pass them on|the workshop decides on them}.",
        "Workshop slots are in the morning; evening slots are for members.",
    ),
    items=("gravel bike, 54 cm", "cargo bike with box", "child bike, 20 inch", "e-bike Tourer 7", "folding bike"),
    bulk={
        "mechanic_log": ("wheel trued 0.4 mm; chain 0.75 worn; bottom bracket ok", "brake pads 30 %, rotor 1.71 mm", "battery 412 cycles, 91 % health"),
        "storage_bay": ("B-12", "C-03", "yard"),
        "supplier_refs": ("SH-CN-HG701; SR-PG1130", "TK-PR2.3; MG-HS33", "BX-BBP3570"),
        "frame_colour": ("slate", "moss green", "signal yellow"),
        "intake_photo": ("intake_0231_a.jpg, intake_0231_b.jpg", "intake_1187_a.jpg"),
    },
    states=("waiting for approval", "in workshop", "ready"),
    requests=(
        Request(
            "You have my bike {in the workshop|since last week} and I {have a question about the quote|got a message from you}.",
            "Go for {choice}, but {nothing above 150 euros|call me on {phone} if it costs more}.",
            ("the full brake service", "a new chain and cassette", "only the safety-relevant repairs"),
            "approve_repair",
            "For {noun} {id} ({item}): {choice}, {cost} in total, paid with {payment}.\n",
        ),
        Request(
            "Could I keep the rental {a bit|a little} longer?",
            "{Until|I would need it until} {choice}, {payment} is fine.",
            ("Sunday evening", "the 24th", "next Wednesday noon"),
            "extend_rental",
            "Rental {id} ({item}) runs until {choice} and costs {cost} more on {payment}.\n",
            "another customer has reserved the bike from tomorrow",
        ),
    ),
    questions=(
        ("Is the lock included?", "A folding lock is {always included|part of every rental}."),
        ("Where can I park when I pick it up?", "There is a loading bay right in front of the shop, free for twenty minutes."),
    ),
)  # fmt: skip

DOMAINS = (PARCELS, HOTEL, BROADBAND, BICYCLES)
