"""People, places and organisations; all of them invented combinations."""

from __future__ import annotations

from memdecay.data.generator.wording import Wording

FIRST_NAMES = (
    "Amara", "Bastian", "Chidi", "Dalia", "Emre", "Freya", "Goran", "Hana", "Ilias", "Jolene",
    "Kofi", "Leocadia", "Marek", "Nadia", "Odile", "Petra", "Quentin", "Rosalind", "Sanjay",
    "Tove", "Umberto", "Vera", "Wilhelmina", "Xiomara", "Yusuf", "Zelda", "Anselm", "Birgit",
    "Cormac", "Delphine", "Ezra", "Fatou", "Greta", "Hamish", "Ingrid", "Jasper",
)  # fmt: skip
LAST_NAMES = (
    "Abernathy", "Bergstrom", "Castellan", "Dvorak", "Eriksen", "Fonseca", "Grzybowski", "Halloran",
    "Iwasaki", "Jovanovic", "Kettering", "Lindqvist", "Mbeki", "Novotny", "Okonkwo", "Pemberton",
    "Quiroga", "Rasmussen", "Szabo", "Thorne", "Ueda", "Vasquez", "Wainwright", "Yilmaz", "Zeller",
    "Ashdown", "Brightwater", "Cavendish", "Delacroix", "Farrow",
)  # fmt: skip
CITIES = (
    "Bergen", "Leeds", "Porto", "Graz", "Tampere", "Ghent", "Lodz", "Valencia", "Brno", "Aarhus",
    "Cork", "Turin", "Uppsala", "Rouen", "Split", "Basel", "Maribor", "Tartu", "Kassel", "Girona",
)  # fmt: skip
STREETS = (
    "Alder Row", "Beacon Hill", "Cinder Lane", "Dovecote Street", "Elm Crescent", "Foundry Road",
    "Garnet Way", "Harbour Steps", "Inkwell Court", "Juniper Close", "Kiln Street", "Linden Walk",
)  # fmt: skip
_STARTS = ("Nor", "Vel", "Bram", "Hol", "Kest", "Mar", "Tor", "Lun", "Ald", "Quill", "Sel", "Fen")
_ENDS = ("wick", "dale", "haven", "mere", "stead", "ford", "holt", "minster", "gate", "ora", "by")
_TRADES = ("Supply", "Analytics", "Outfitters", "Logistics", "Labs", "Trading", "Works", "Mutual")


def full_name(wording: Wording) -> str:
    """Return a first and a last name."""
    return f"{wording.pick(FIRST_NAMES)} {wording.pick(LAST_NAMES)}"


def email_of(name: str, wording: Wording, domain: str = "") -> str:
    """Return an address made of a name."""
    first, last = name.lower().split(" ", 1)
    host = domain or wording.pick(["postbox.example", "mailhaus.example", "inkmail.example"])
    return wording.pick([f"{first}.{last}", f"{first[0]}{last}", f"{last}_{first}"]) + "@" + host


def address(wording: Wording) -> str:
    """Return a street with number, and a city."""
    city, zip_code = wording.pick(CITIES), wording.code("#####")
    return f"{wording.number(1, 189)} {wording.pick(STREETS)}, {zip_code} {city}"


def invented_place(wording: Wording) -> str:
    """Return the name of a place that does not exist."""
    return wording.pick(_STARTS) + wording.pick(_ENDS)


def company(wording: Wording) -> str:
    """Return the name of a company that does not exist."""
    return f"{invented_place(wording)} {wording.pick(_TRADES)}"


def day(wording: Wording, month: int | None = None) -> str:
    """Return a date as ``YYYY-MM-DD``."""
    return f"2031-{month or wording.number(1, 12):02d}-{wording.number(1, 28):02d}"


def clock(wording: Wording, low: int = 8, high: int = 18) -> str:
    """Return a time of day on a quarter of an hour."""
    return f"{wording.number(low, high):02d}:{wording.pick(['00', '15', '30', '45'])}"
