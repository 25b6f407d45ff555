"""Rooms of the household game: places and the objects that lie there."""

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.wording import Wording

_OPEN_PLACES = (
    "countertop",
    "shelf",
    "desk",
    "sidetable",
    "coffeetable",
    "armchair",
    "stove",
    "bench",
)
_CLOSED_PLACES = ("drawer", "cabinet", "wardrobe", "chest", "locker")
_OBJECTS = (
    "apple",
    "bowl",
    "candle",
    "cup",
    "cloth",
    "fork",
    "kettle",
    "ladle",
    "mug",
    "newspaper",
    "pan",
    "pencil",
    "plate",
    "potato",
    "saltshaker",
    "soapbar",
    "spraybottle",
    "tomato",
    "vase",
    "watch",
)
TREATMENTS = {
    "heat": (
        "microwave",
        "heat {object} with {device}",
        "You heat the {object} using the {device}.",
    ),
    "cool": ("fridge", "cool {object} with {device}", "You cool the {object} using the {device}."),
    "clean": (
        "sinkbasin",
        "clean {object} with {device}",
        "You clean the {object} using the {device}.",
    ),
    "": ("", "", ""),
}


@dataclass(frozen=True, slots=True)
class Room:
    """A room with its places.

    Attributes:
        places: Names of all places, for example ``drawer 2``.
        contents: What lies in each place.
    """

    places: tuple[str, ...]
    contents: dict[str, tuple[str, ...]]

    def is_closed(self, place: str) -> bool:
        """Whether a place has to be opened first."""
        return place.split()[0] in _CLOSED_PLACES

    def describe(self, place: str) -> str:
        """Say what one sees in a place."""
        things = [f"a {thing}" for thing in self.contents[place]]
        if not things:
            return "nothing"
        return things[0] if len(things) == 1 else ", ".join(things[:-1]) + f", and {things[-1]}"


@dataclass(frozen=True, slots=True)
class Errand:
    """What to do: find an object, perhaps treat it, put it somewhere."""

    room: Room
    noun: str
    object: str
    source: str
    target: str
    treatment: str
    device: str


def draw_errand(wording: Wording) -> Errand:
    """Return a room and an errand in it."""
    kinds = wording.some(_OPEN_PLACES, 2, 4) + wording.some(_CLOSED_PLACES, 1, 3)
    places = [f"{kind} {i}" for kind in kinds for i in range(1, wording.number(2, 4))]
    treatment = wording.pick(sorted(TREATMENTS))
    device = f"{TREATMENTS[treatment][0]} 1" if treatment else ""
    noun = wording.pick(_OBJECTS)
    others = [name for name in _OBJECTS if name != noun]
    contents = {
        place: tuple(f"{name} {wording.number(1, 3)}" for name in wording.some(others, 0, 5))
        for place in places
    }
    source, target = wording.some(places, 2, 2)
    thing = f"{noun} {wording.number(1, 2)}"
    contents[source] = tuple(wording.shuffled([*contents[source], thing]))
    everything = tuple(wording.shuffled([*places, *([device] if device else []), "garbagecan 1"]))
    return Errand(Room(everything, contents), noun, thing, source, target, treatment, device)
