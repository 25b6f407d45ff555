"""Topics of office mail, and the mail and events that surround them."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.wording import Wording


@dataclass(frozen=True, slots=True)
class Topic:
    """What a message is about.

    Attributes:
        subject: Subject line.
        request: What the person asks the assistant (template with ``{partner}``).
        details: Sentences one of which the message hides.
        reply: Text of the answer (template).
    """

    subject: str
    request: str
    details: tuple[str, ...]
    reply: str


TOPICS = (
    Topic(
        "Kitchen renovation quote",
        "{partner} {sent me|wrote about} a quote for the kitchen. {Find out what it costs and set up a call|What is the price, and when can we talk about it?}",
        ("the total is {amount} euros including the worktop.", "the offer {number} is valid until the end of the month and comes to {amount} euros."),
        "Hello {partner}, thank you for the quote. I would like to go through it with you on {date} at {start}. Best, {owner}",
    ),
    Topic(
        "Onboarding of the new colleague",
        "Please {find|dig out} what {partner} wrote about the onboarding and {plan a meeting|get us together}.",
        ("the badge number is {number} and the desk is in room {place}.", "the laptop will be handed out in {place}, ticket {number}."),
        "Dear {partner}, let us meet on {date}, {start}, to prepare the first week. Regards, {owner}",
    ),
    Topic(
        "Travel to the partner workshop",
        "{I lost track of the trip|Help me with the trip}: {what did {partner} book|which train did {partner} choose}? {We should talk|Put a call in my calendar}.",
        ("we take train {number} to {place}, seats are booked.", "the hotel in {place} is booked under the code {number}."),
        "Hi {partner}, got the booking. Short call on {date} at {start}? {owner}",
    ),
    Topic(
        "Parents' evening at school",
        "{partner} from the school {mailed|wrote} about the parents' evening. {Check what we have to bring and reserve the time|I need the date in my calendar}.",
        ("every family brings a folder and {amount} cents for copies, room {number}.", "it takes place in the {place} hall, entrance {number}."),
        "Dear {partner}, we will be there on {date}; I would come at {start}. Kind regards, {owner}",
    ),
    Topic(
        "Contract draft, second round",
        "The contract with {partner} {is stuck|needs an answer}. {See what the last change was and find a slot to discuss it|Look up the open point and set up a talk}.",
        ("clause {number} now limits the liability to {amount} euros.", "only the notice period in clause {number} is open."),
        "Hello {partner}, I have read the draft. May I propose {date}, {start}, for the remaining point? {owner}",
    ),
    Topic(
        "Choir rehearsal room",
        "Did {partner} answer about the rehearsal room? {If so, plan a visit|We should see it before we sign}.",
        ("the room in {place} costs {amount} euros a year and the key box code is {number}.", "the hall in {place} is free on Thursdays, contact number {number}."),
        "Hi {partner}, that sounds good. We would look at the room on {date} at {start}. See you, {owner}",
    ),
    Topic(
        "Server move on the weekend",
        "{partner} announced the server move. {I want to know what it means for us and talk it over|Find the facts and arrange a call}.",
        ("the change {number} starts at midnight and the site in {place} is offline for {amount} seconds.", "the new address block is noted in ticket {number}, responsible is the team in {place}."),
        "Hello {partner}, thanks for the plan. Let us walk through it on {date}, {start}. {owner}",
    ),
)  # fmt: skip
_SUBJECTS = (
    "Newsletter: spring in the garden", "Your parcel is on its way", "Invoice for January", "Cake in the kitchen",
    "Re: Re: parking", "Password expires soon", "Minutes of the board", "Survey: how was your stay?", "Lunch?",
    "Discount for members", "Fire drill on Tuesday", "Photos from the trip", "Reminder: library books", "New phone list",
    "Job opening: archivist", "Out of office", "Weekly digest", "Coffee machine, again", "Holiday request approved",
)  # fmt: skip
_TITLES = (
    "Stand-up",
    "Dentist",
    "Budget review",
    "Focus time",
    "Yoga",
    "Call with the landlord",
    "Interview",
    "Lunch with Ana",
    "School run",
    "Team retro",
    "Gardening",
    "Vendor demo",
)
_NOTES = (
    "",
    "",
    " (online)",
    " [recurring, organiser: office@hub.example, dial-in 2214#]",
    " (tentative)",
    " [room 4, bring adapter]",
)
_SMALL_TALK = (
    "I hope you had a {good|restful} weekend{ and the weather held|}.",
    "{Sorry for the late answer|Apologies for the delay}, {it was a busy week|half of the team is ill}.",
    "{As you know|As mentioned before}, we are still waiting for the other offices.",
    "The photos of the last event are {on the shared drive|in the usual place}.",
    "{By the way|Incidentally}, the canteen has a new menu and it is surprisingly good.",
    "{Please greet the others|Regards to everyone} from me.",
    "I will be {out of the office|hard to reach} on {Monday|Thursday afternoon}.",
)  # fmt: skip


def other_subjects(wording: Wording, count: int) -> list[str]:
    """Return subjects of messages that do not matter."""
    return wording.shuffled(wording.some(_SUBJECTS, count, count))


def other_events(wording: Wording) -> list[tuple[str, str, str, str]]:
    """Return events of a day as (start, end, title, note), in order; the afternoon is free."""
    hours = wording.some([7, 8, 9, 10, 11, 12, 18, 19, 20], 3, 7)
    titles = wording.shuffled(_TITLES)
    return [
        (f"{hour:02d}:00", f"{hour:02d}:{wording.pick(['30', '45'])}", title, wording.pick(_NOTES))
        for hour, title in zip(hours, titles, strict=False)
    ]


def mail_body(
    wording: Wording, owner: str, partner: str, email: str, topic: Topic, detail: str
) -> tuple[list[str], set[int]]:
    """Return a message as lines with quoted history, and the lines that hold the detail."""
    talk = [wording(text) for text in wording.shuffled(_SMALL_TALK)]
    lines = [
        f"From: {partner} <{email}>",
        f"To: {owner}",
        f"Subject: {topic.subject}",
        f"Message-ID: <{wording.code('~~~~~~~~~~~~')}@relay.example>",
        "MIME-Version: 1.0",
        "",
        f"{wording.pick(['Hi', 'Dear', 'Hello'])} {owner.split()[0]},",
        "",
        *talk[:2],
    ]
    wanted = len(lines)
    lines += [
        wording(
            "{About {subject}|On the subject}: {detail}",
            subject=topic.subject.lower(),
            detail=detail,
        ),
        *talk[2:4],
        "",
        wording.pick(["Best,", "Kind regards", "Cheers"]),
        partner,
        "",
    ]
    if wording.chance(0.7):
        lines += [
            wording(
                "{Phone|Tel.} {phone} | {company} | {address}",
                phone=wording.code("+44 20 #### ####"),
                company=people.company(wording),
                address=people.address(wording),
            ),
            "This message may contain confidential information.",
            "",
        ]
    for depth in range(1, wording.number(1, 5)):
        mark = ">" * depth + " "
        lines += [
            f"{mark}On {people.day(wording)}, {wording.pick([owner, partner])} wrote:",
            *(mark + wording(text) for text in wording.some(_SMALL_TALK, 2, 5)),
            mark.rstrip(),
        ]
    return lines, {wanted}
