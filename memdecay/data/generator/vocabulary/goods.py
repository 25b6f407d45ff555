"""Things to buy: titles, options, prices."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.wording import Wording

_GOODS = (
    ("trail running shoes", ("waterproof", "wide fit", "vegan", "with a rock plate"), "size", ("39", "41", "42.5", "44")),
    ("desk organiser", ("bamboo", "with drawers", "stackable"), "colour", ("natural", "black", "white")),
    ("herbal tea", ("caffeine free", "organic", "with ginger", "loose leaf"), "pack", ("20 bags", "50 bags", "250 g")),
    ("blackout curtains", ("thermal", "with eyelets", "machine washable"), "size", ("140 x 175", "140 x 245", "200 x 245")),
    ("wireless earbuds", ("noise cancelling", "sweat proof", "with a long battery life"), "colour", ("graphite", "mint", "sand")),
    ("hand cream", ("fragrance free", "for dry skin", "with oat oil"), "volume", ("50 ml", "75 ml", "3 x 75 ml")),
    ("camping stove", ("foldable", "wind resistant", "for gas cartridges"), "set", ("stove only", "with pot", "with case")),
    ("toddler rain suit", ("lined", "reflective", "with foot straps"), "size", ("86", "92", "104")),
    ("table lamp", ("dimmable", "with a linen shade", "rechargeable"), "colour", ("brass", "smoke", "olive")),
    ("floor pillow", ("corduroy", "with a washable cover", "extra thick"), "colour", ("rust", "navy", "oat")),
)  # fmt: skip
_BRANDS = (
    "Ostrava",
    "Kelpwood",
    "Mirrorfox",
    "Plainsong",
    "Hjem & Co",
    "Tallowby",
    "Nine Acre",
    "Umbrio",
)
_PUFF = (
    "Gift Idea",
    "New Season",
    "Easy Clean",
    "for Home and Office",
    "Bestseller",
    "Set of 1",
    "Limited",
    "Everyday Line",
    "Premium Quality",
)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in the shop."""

    code: str
    title: str
    price: float
    is_match: bool


@dataclass(frozen=True, slots=True)
class Wish:
    """What to buy, and what the shop has."""

    noun: str
    features: tuple[str, ...]
    option_name: str
    option: str
    all_options: tuple[str, ...]
    limit: int
    items: tuple[Item, ...]

    @property
    def matches(self) -> tuple[Item, ...]:
        """Items with all features, below the limit."""
        return tuple(item for item in self.items if item.is_match)


def draw_wish(wording: Wording) -> Wish:
    """Return a thing to buy with a shelf of items, one or two of which match."""
    noun, features, option_name, options = wording.pick(_GOODS)
    wanted = tuple(wording.some(features, 1, 2))
    limit = wording.pick([20, 30, 40, 50, 60, 90])
    num_items, num_matches = wording.number(3, 8), wording.number(1, 2)
    items = []
    for i in range(num_items):
        is_match = i < num_matches
        if is_match:
            chosen, price = wanted, wording.number(limit // 3, limit - 2)
        else:
            chosen = tuple(wording.some([f for f in features if f not in wanted[:1]], 1, 2))
            price = wording.number(limit // 4, limit * 2)
        puffs = ", ".join(wording.some(_PUFF, 1, 4))
        title = f"{wording.pick(_BRANDS)} {noun.title()}, {', '.join(chosen)} | {puffs}"
        items.append(Item(wording.code("B0@#@@#@##"), title, price + 0.99, is_match))
    return Wish(
        noun,
        wanted,
        option_name,
        wording.pick(options),
        options,
        limit,
        tuple(wording.shuffled(items)),
    )
