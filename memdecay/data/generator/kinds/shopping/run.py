"""Web shopping: as a text game or in a browser."""

from __future__ import annotations

from memdecay.data.generator.builder import (
    TraceBuilder,
)
from memdecay.data.generator.kinds.shopping.browser_shop import BrowserShop
from memdecay.data.generator.kinds.shopping.text_shop import TextShop
from memdecay.data.generator.vocabulary.goods import draw_wish
from memdecay.data.generator.wording import Wording


def write_shopping(wording: Wording, builder: TraceBuilder) -> None:
    """Write one purchase."""
    wish = draw_wish(wording)
    if wording.chance(0.55):
        TextShop(wording, builder, wish).write()
    else:
        BrowserShop(wording, builder, wish).write()
