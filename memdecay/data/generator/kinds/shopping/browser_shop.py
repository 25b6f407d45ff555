"""A web shop in a browser that lists the elements of a page."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    context,
    decision,
    finding,
    instruction,
    surround,
)
from memdecay.data.generator.kinds.shopping.task import describe_task
from memdecay.data.generator.vocabulary.goods import Wish
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.wording import Wording


class BrowserShop:
    """The shop as numbered elements of a page."""

    def __init__(self, wording: Wording, builder: TraceBuilder, wish: Wish) -> None:
        self.wording, self.builder, self.wish = wording, builder, wish
        self.shop = wording.pick(
            ["shop.umbrella-bazaar.example", "www.corner-store.example", "market.tidepool.example"]
        )
        self.form = wording.pick(
            [
                '[{i}]: <{tag}> "{text}";\t',
                "[{i}] {tag} '{text}'\n",
                "<{tag} id={i}>{text}</{tag}>\n",
            ]
        )

    def write(self) -> None:
        """Write the purchase from the start page to the basket."""
        wording, wish = self.wording, self.wish
        self.builder.add(
            "system",
            instruction(
                wording(
                    "{You are a robot that browses the web|Imagine that you operate a web browser} {like a person would|for a user}. Each {turn|step} you get an observation with numbered elements of the page and answer with one thought and one action.\n"
                    "Actions: Click [n]; Type [n]; text; Scroll up or down; GoBack; ANSWER; text\n"
                    "{* Never log in.|* Ignore advertisements and cookie banners.}\n{* One action per step.|* Repeat no action that had no effect.}\n* {Finish|End} with ANSWER when the {article is in the basket|task is done}."
                )
                + "\n\n"
                + guidelines(wording, 1, 3)
            ),
        )
        chosen = wish.matches[0]
        self.builder.add(
            "user",
            instruction(
                f"Now given a task: {describe_task(wording, wish)}. Put it into the basket at https://{self.shop}/ and report the price.\n"
            ),
            *self._page([], "searchbox"),
        )
        query = " ".join([*wish.features, wish.noun])
        self._act(
            wording(
                "{The start page shows the usual menu and some banners|I see the start page of the shop with its menu|There is a menu, a search field and a cookie notice}. "
            ),
            wording(
                "{The search box is element 1, I type the query there|I use the search field [1]|Searching is quicker than the menu, so I fill in [1]}."
            ),
            f"Type [1]; {query}",
        )
        rows, number = self._rows()
        self._observe(*self._page(rows, "results"))
        self._act(
            wording(
                "{The page lists several articles, most of which lack a feature or cost too much|The results are in, with prices behind the titles|Some of the results are off, others too expensive}. "
            ),
            f"{chosen.title.split(',')[0]} for ${chosen.price} has what is asked for, so I open [{number}].",
            f"Click [{number}]",
        )
        buttons = [
            (f"{wish.option_name}: {option}", option == wish.option) for option in wish.all_options
        ]
        self._observe(
            *self._page(
                [
                    (f"{chosen.title} ${chosen.price}", True),
                    *buttons,
                    ("Add to basket", True),
                    ("Write a review", False),
                    ("Customers also bought", False),
                ],
                "article",
            )
        )
        place = 11 + wish.all_options.index(wish.option)
        self._act(
            wording(
                "{The article page is open|Now I see the article with its variants|The page shows the price and some buttons}. "
            ),
            wording(
                "{I select {option} as the task says|The task asks for {option}, which is a button here|{option} is the variant I need}.",
                option=wish.option,
            ),
            f"Click [{place}]",
        )
        self._observe(finding(wording("{Selected|Option set}: {option}", option=wish.option)))
        self._act(
            "",
            wording(
                "{The option is set, now it goes into the basket|Next I put it into the basket|With the option chosen I press the basket button}."
            ),
            f"Click [{11 + len(wish.all_options)}]",
        )
        self._observe(
            *self._page(
                [
                    ("1 article in your basket", True),
                    (f"Total ${chosen.price}", True),
                    ("Continue shopping", False),
                    ("You may also like", False),
                ],
                "basket",
            )
        )
        done = wording(
            "{The basket holds the article|It is in the basket, the task is done|Basket and total are as they should be}."
        )
        self.builder.add(
            "assistant",
            decision(
                f"Thought: {done}\nAction: ANSWER; {chosen.title.split(' |')[0]} ({wish.option}) is in the basket for ${chosen.price}."
            ),
        )

    def _act(self, seen: str, choice: str, action: str) -> None:
        pieces = [decision(choice + "\n")]
        if seen and self.wording.chance(0.7):
            pieces.insert(0, context(seen))
        self.builder.add("assistant", *surround(pieces, "Thought: "), finding(f"Action: {action}"))

    def _observe(self, *pieces: Piece) -> None:
        self.builder.add("user", *surround(pieces, "Observation: "))

    def _rows(self) -> tuple[list[tuple[str, bool]], int]:
        chosen = self.wish.matches[0]
        rows = [(f"{item.title} ${item.price}", item.is_match) for item in self.wish.items]
        return rows, 10 + [item.code for item in self.wish.items].index(chosen.code)

    def _page(self, rows: list[tuple[str, bool]], name: str) -> tuple[Piece, ...]:
        menu = [
            "Menu",
            f"Search {self.shop}",
            "Sign in",
            "Deals of the week",
            "Gift cards",
            "Help",
            "Stores",
            "Accept cookies",
            "Basket",
            "Newsletter: 10 % off",
        ]
        shown = [self._element(i, wanted="button", text=text) for i, text in enumerate(menu)]
        is_start = name == "searchbox"
        pieces = [
            finding(row) if is_start and i == 1 else context(row) for i, row in enumerate(shown)
        ]
        for i, (text, is_wanted) in enumerate(rows, 10):
            row = self._element(i, "link" if name == "results" else "button", text)
            pieces.append(finding(row) if is_wanted else context(row))
        footer = [
            "Imprint",
            "Privacy",
            "Returns",
            "Careers",
            "Follow us",
            "Payment methods",
            "Sustainability report",
        ]
        tail = "".join(
            self._element(60 + i, "link", text)
            for i, text in enumerate(self.wording.some(footer, 2, 7))
        )
        picture = self.wording("{\n[image: data:image/png;base64,...]|\n(screenshot omitted)|}")
        pieces.append(context(tail + picture))
        return tuple(pieces)

    def _element(self, i: int, wanted: str, text: str) -> str:
        return self.form.format(i=i, tag=wanted, text=text)
