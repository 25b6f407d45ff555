"""The instruction of a purchase."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.vocabulary.goods import Wish
from memdecay.data.generator.wording import Wording


def describe_task(wording: Wording, wish: Wish) -> str:
    """Return the wish in words."""
    return wording(
        "{I am looking for|I need|i would like|Find me} {noun} that {are|is} {features}, {with {option_name} {option}|{option_name}: {option}}, "
        "{and price lower than {limit}.00 dollars|for less than {limit} dollars|not above {limit} dollars}",
        noun=wish.noun,
        features=" and ".join(wish.features),
        option_name=wish.option_name,
        option=wish.option,
        limit=wish.limit,
    )
