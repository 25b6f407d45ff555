"""An invented encyclopedia: articles whose facts link to each other, and questions about them."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memdecay.data.generator.vocabulary import people
from memdecay.data.generator.wording import Wording


@dataclass(frozen=True, slots=True)
class Article:
    """A page: its sentences, and which of them hold the fact that is looked for."""

    title: str
    sentences: tuple[str, ...]
    wanted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Riddle:
    """A question that takes several pages.

    Attributes:
        question: The question.
        articles: Pages in the order of the search.
        notes: What each page tells.
        answer: The final answer.
    """

    question: str
    articles: tuple[Article, ...]
    notes: tuple[str, ...]
    answer: str


_PLACE_FILLER = (
    "The {town|municipality} lies on the river {river} and covers {area} square kilometres.",
    "Its weekly market {dates back to|has been held since} the {thirteenth|fifteenth} century.",
    "The climate is mild, with most of the rain in {October|April}.",
    "A narrow-gauge railway {connected|linked} it with the coast until 1968.",
    "The local football club plays in the {third|fourth} regional division.",
    "In the census of 2021 it had {count} inhabitants.",
    "The {parish church|old granary} was damaged by fire and rebuilt twice.",
    "{Glass and paper|Leather and felt} were its main trades before the war.",
)
_PERSON_FILLER = (
    "{name} grew up as the {third|youngest} of five children of a {ferryman|schoolteacher}.",
    "{Critics|Contemporaries} described the early work as {dry|overloaded} and the late work as {generous|austere}.",
    "Several letters are kept in the archive of {place}.",
    "A stay in {place} in the 1890s left {few traces|a lasting mark}.",
    "{name} never married and {kept bees|collected barometers}.",
    "A street in {place} bears the name.",
    "The estate was {auctioned|divided among three nephews} in {year}.",
)
_WORK_FILLER = (
    "The first design was rejected because of its cost.",
    "It is {listed|protected} as a monument of regional interest.",
    "More than {count} visitors are counted in a year.",
    "The name goes back to a {legend|misreading} in a {parish register|travel report}.",
    "Repairs in {year} replaced the original {slate|copper} covering.",
    "It appears on a stamp issued in {year}.",
    "Local guides tell that a {bell|lantern} is hidden inside it.",
)
_ART_FILLER = (
    "The first version was {burnt|withdrawn} and only a few pages of it survive.",
    "It {was received coolly|met with polite silence} and found its public {only after the war|two decades later}.",
    "Its title goes back to a {misreading|proverb} in a letter from {place}.",
    "A {shortened|revised} edition came out in {year}.",
    "It {has been translated|has been rendered} into {eleven|nineteen} languages.",
    "The manuscript is kept in the {library|town archive} of {place}.",
    "Scholars {count it among|place it at the end of} the romances of the river country.",
)


def _filler(wording: Wording, templates: Sequence[str], name: str) -> list[str]:
    return [
        wording(
            template,
            name=name,
            place=people.invented_place(wording),
            river=people.invented_place(wording)[:5],
            area=wording.number(11, 240),
            count=wording.number(900, 48000),
            year=wording.number(1902, 1988),
        )
        for template in wording.shuffled(wording.some(templates, 2, len(templates)))
    ]


def _article(
    wording: Wording, title: str, opening: str, fact: str, templates: Sequence[str]
) -> Article:
    sentences = [opening, *_filler(wording, templates, title)]
    place = wording.number(1, len(sentences))
    sentences.insert(place, fact)
    return Article(title, tuple(sentences), (place,))


def _person(wording: Wording, name: str, trade: str) -> tuple[Article, int, str]:
    birth = wording.number(1851, 1899)
    home = people.invented_place(wording)
    fact = wording("{name} was born in {year} in {home}.", name=name, year=birth, home=home)
    opening = wording(
        "{name} was {a|an influential} {trade} {of the late period|and teacher}.",
        name=name,
        trade=trade,
    )
    return _article(wording, name, opening, fact, _PERSON_FILLER), birth, home


def chain_riddle(wording: Wording) -> Riddle:
    """Ask for a fact about the maker of a thing (two or three pages)."""
    kind, trade, verb = wording.pick(
        [
            ("bridge", "engineer", "designed"),
            ("lighthouse", "architect", "drawn"),
            ("opera", "composer", "composed"),
            ("novel", "writer", "written"),
            ("clock tower", "clockmaker", "built"),
            ("botanical garden", "botanist", "laid out"),
        ]
    )
    place, name = people.invented_place(wording), people.full_name(wording)
    thing = wording("{The|} {place} {kind}", place=place, kind=kind.title()).strip()
    work = _article(
        wording,
        thing,
        wording(
            "{thing} is {article} {kind} {in the north of the country|known far beyond the region}.",
            thing=thing,
            kind=kind,
            article="an" if kind == "opera" else "a",
        ),
        f"It was {verb} by {name} and finished in {wording.number(1921, 1938)}.",
        _ART_FILLER if kind in ("opera", "novel") else _WORK_FILLER,
    )
    person, birth, home = _person(wording, name, trade)
    note = f"{thing} was {verb} by {name}"
    if wording.chance(0.5):
        return Riddle(
            wording(
                "In which year was the {trade} {of|behind} {thing} born?", trade=trade, thing=thing
            ),
            (work, person),
            (note, f"{name} was born in {birth}"),
            str(birth),
        )
    river = people.invented_place(wording)
    town = _article(
        wording,
        home,
        f"{home} is a town in the hills.",
        f"It lies where the {river} meets the sea canal.",
        _PLACE_FILLER,
    )
    return Riddle(
        wording(
            "{Which river flows|What river runs} through the birthplace of the {trade} of {thing}?",
            trade=trade,
            thing=thing,
        ),
        (work, person, town),
        (note, f"{name} was born in {home}", f"{home} lies on the {river}"),
        river,
    )


def comparison_riddle(wording: Wording) -> Riddle:
    """Ask which of two people was born first, or has something in common."""
    names = (people.full_name(wording), people.full_name(wording))
    trades = wording.shuffled(["surveyor", "painter", "chemist", "violinist", "cartographer"])[:2]
    (first, year_a, _), (second, year_b, _) = (
        _person(wording, name, trade) for name, trade in zip(names, trades, strict=True)
    )
    winner = names[0] if year_a <= year_b else names[1]
    question = wording("Who was born {first|earlier}, {a} or {b}?", a=names[0], b=names[1])
    return Riddle(
        question,
        (first, second),
        (f"{names[0]} was born in {year_a}", f"{names[1]} was born in {year_b}"),
        winner,
    )


def count_riddle(wording: Wording) -> Riddle:
    """Ask for a number that stands on one page."""
    place = people.invented_place(wording)
    count = wording.number(3, 60)
    thing = wording.pick(["windmills", "covered wells", "stone crosses", "ferries", "guild houses"])
    article = _article(
        wording,
        place,
        f"{place} is a {wording.pick(['market town', 'former port', 'border village'])}.",
        f"Of its {thing}, {count} are still in use.",
        _PLACE_FILLER,
    )
    return Riddle(
        wording(
            "How many {thing} are {still in use|in use today} in {place}?", thing=thing, place=place
        ),
        (article,),
        (f"{count} of the {thing} are in use",),
        str(count),
    )


def draw_riddle(wording: Wording) -> Riddle:
    """Return a question with its pages."""
    return wording.pick([chain_riddle, chain_riddle, comparison_riddle, count_riddle])(wording)
