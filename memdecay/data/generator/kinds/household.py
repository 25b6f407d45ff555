"""A household text game: look for an object, treat it, put it in its place."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    context,
    decision,
    finding,
    instruction,
)
from memdecay.data.generator.vocabulary.rooms import TREATMENTS, Errand, draw_errand
from memdecay.data.generator.wording import Wording


def write_household(wording: Wording, builder: TraceBuilder) -> None:
    """Write one errand."""
    errand = draw_errand(wording)
    game = _Game(wording, builder, errand)
    game.open()
    game.play()


class _Game:
    """One game and the manner in which it is written down."""

    def __init__(self, wording: Wording, builder: TraceBuilder, errand: Errand) -> None:
        self.wording, self.builder, self.errand = wording, builder, errand
        self.layout = wording.pick(["merged", "separate", "path", "code", "merged"])
        self.observer = wording.pick(["tool", "user"])
        self.talks = wording.chance(0.8)
        self.steps_left = wording.pick([0, 0, 30, 40])
        self.path = ["Start"]

    @property
    def task(self) -> str:
        """The errand in words."""
        wording, errand = self.wording, self.errand
        done = (
            f"{errand.treatment} some {errand.noun} and put it in"
            if errand.treatment
            else f"put {wording.pick(['a', 'some'])} {errand.noun} in"
        )
        return f"{done} {errand.target.split()[0]}."

    def open(self) -> None:
        """Write rules, demonstration, room and task."""
        wording, errand = self.wording, self.errand
        room = wording(
            "{This flat has one room, and you stand at its door. Within reach are|You wake up in a small flat. In front of you there are} {places}.",
            places=", ".join(f"a {place}" for place in errand.room.places),
        )
        rules = wording(
            "{You play a household game|Interact with a household to solve a task}. {In each turn|Every time} give one {command|action}: go to, open, take, put, {heat, cool, clean|use}. {If nothing happens, the action was invalid.|An invalid action changes nothing.}"
        )
        pieces: list[Piece] = []
        if wording.chance(0.6):
            if wording.chance(0.5):
                self.builder.add("system", instruction(rules))
            else:
                pieces.append(instruction(rules + "\n\n"))
        if wording.chance(0.35):
            pieces.append(context(self._demonstration()))
        pieces.append(instruction(f"{room}\nYour task is to: {self.task}"))
        self.builder.add("user", *pieces)

    def play(self) -> None:
        """Write the search, the treatment and the end."""
        wording, errand = self.wording, self.errand
        self._think(
            wording(
                "{To solve the task, I|First I} {need to|have to} find a {noun}{, then {treatment} it|}, then put it in the {target}.{| I start with the likely places.}",
                noun=errand.noun,
                treatment=errand.treatment or "carry",
                target=errand.target,
            )
        )
        places = [
            place for place in errand.room.contents if place not in (errand.source, errand.target)
        ]
        for place in wording.shuffled(places)[: wording.number(1, min(11, len(places)))]:
            self._visit(place)
            self._think(
                wording(
                    "{No {noun} here|There is no {noun} in {place}}{, on to the next place|, I will check another one}.",
                    noun=errand.noun,
                    place=place,
                )
            )
        if wording.chance(0.3):
            self._act(f"take {errand.object}", "Nothing happens.")
            self._think(
                wording(
                    "{I have to stand in front of it first|The command needs a place}, so I {go on looking|keep looking}."
                )
            )
        self._visit(errand.source)
        self._think(
            wording(
                "{Found|There is} {object}{ in {source}|}. {Next: take it.|I take it now.}",
                object=errand.object,
                source=errand.source,
            )
        )
        self._act(
            f"take {errand.object} from {errand.source}",
            f"You pick up the {errand.object} from the {errand.source}.",
        )
        self._treat()
        self._visit(errand.target)
        self._think(
            wording(
                "{Now|Finally} I put the {object} {in|into} {target}.",
                object=errand.object,
                target=errand.target,
            )
        )
        self._act(
            f"put {errand.object} in/on {errand.target}",
            f"You put the {errand.object} in/on the {errand.target}.",
        )
        if wording.chance(0.4):
            self.builder.add(
                "user", decision(wording("{Task solved.|SUCCESS|STATUS: OK, task completed}"))
            )

    def _treat(self) -> None:
        errand = self.errand
        if not errand.treatment:
            return
        device, command, outcome = TREATMENTS[errand.treatment]
        names = {"object": errand.object, "device": f"{device} 1"}
        self._think(
            self.wording(
                "{Now I need to {treatment} it|The {object} has to be treated} {at|with} the {device}.",
                treatment=errand.treatment,
                **names,
            )
        )
        self._act(f"go to {device} 1", self.wording("The {device} is closed.", **names))
        self._act(command.format(**names), outcome.format(**names))

    def _visit(self, place: str) -> None:
        room = self.errand.room
        if room.is_closed(place):
            self._act(f"go to {place}", f"The {place} is closed.")
            self._act(
                f"open {place}",
                f"The {place} swings open. Inside: {room.describe(place)}.",
            )
        else:
            self._act(
                f"go to {place}",
                f"You walk over to the {place}. There you find {room.describe(place)}.",
            )

    def _think(self, thought: str) -> None:
        if not self.talks:
            return
        if self.layout == "path":
            self.builder.add("assistant", decision(f"> Think: {thought}"))
        elif self.layout == "separate":
            self.builder.add("assistant", decision(f"> think: {thought}"))
            self.builder.add(self.observer, context("OK."))
        else:
            self._pending = thought

    _pending = ""

    def _act(self, command: str, outcome: str) -> None:
        thought, self._pending = self._pending, ""
        if self.layout == "code":
            verb, *rest = command.split(" ", 1)
            body = finding(f"<execute>\nprint({verb}({(rest or [''])[0]!r}))\n</execute>")
            lead = (decision(f"<thought>\n{thought}\n</thought>\n"),) if thought else ()
            self.builder.add("assistant", *lead, body)
        elif self.layout == "merged":
            lead = (decision(f"THOUGHT: {thought}\n"),) if thought else ()
            self.builder.add(
                "assistant", *lead, finding(f"{'ACTION: ' if thought else '> '}{command}")
            )
        else:
            self.builder.add("assistant", finding(f"> {command}"))
        self._observe(outcome)
        self._recall(command)

    def _observe(self, outcome: str) -> None:
        pieces = [finding(f"Observation:\n{outcome}" if self.layout == "code" else outcome)]
        if self.steps_left:
            self.steps_left -= 1
            pieces.append(context(f"\nYou have {max(self.steps_left, 1)} steps left."))
        self.builder.add(self.observer, *pieces)

    def _recall(self, command: str) -> None:
        if self.layout != "path":
            return
        verb, *rest = command.split(" ", 1)
        self.path.append(f"{verb.title()}({(rest or [''])[0].removeprefix('to ')})")
        if self.wording.chance(0.6):
            self.builder.add("assistant", context(f"> ActionPath: {'->'.join(self.path)}"))

    def _demonstration(self) -> str:
        other = draw_errand(self.wording)
        return (
            "Here is an example.\n"
            f"You see {', '.join(f'a {place}' for place in other.room.places[:5])}.\nYour task is to: put a {other.noun} in {other.target}.\n"
            f"> think: I look at {other.source} first.\nOK.\n> go to {other.source}\nYou see {other.room.describe(other.source)}.\n"
            f"> take {other.object} from {other.source}\nYou pick up the {other.object}.\n> go to {other.target}\n"
            f"> put {other.object} in/on {other.target}\nYou put it there.\n\nHere is the task.\n"
        )
