"""Web shopping: as a text game of searches and clicks, or in a browser that lists elements."""
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
from memdecay.data.generator.vocabulary.goods import Item, Wish, draw_wish
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.wording import Wording


def write_shopping(wording: Wording, builder: TraceBuilder) -> None:
    """Write one purchase."""
    wish = draw_wish(wording)
    if wording.chance(0.55):
        _TextShop(wording, builder, wish).write()
    else:
        _BrowserShop(wording, builder, wish).write()


def _task(wording: Wording, wish: Wish) -> str:
    return wording(
        "{I am looking for|I need|i would like|Find me} {noun} that {are|is} {features}, {with {option_name} {option}|{option_name}: {option}}, "
        "{and price lower than {limit}.00 dollars|for less than {limit} dollars|not above {limit} dollars}",
        noun=wish.noun,
        features=" and ".join(wish.features),
        option_name=wish.option_name,
        option=wish.option,
        limit=wish.limit,
    )


class _TextShop:
    """The shop as a text game with search[...] and click[...]."""

    def __init__(self, wording: Wording, builder: TraceBuilder, wish: Wish) -> None:
        self.wording, self.builder, self.wish = wording, builder, wish
        self.observer = wording.pick(["user", "tool"])
        self.num_results = wording.number(12, 50)
        self.thinks = wording.pick(["inline", "think_action", "none"])

    def write(self) -> None:
        wording, wish = self.wording, self.wish
        self._open()
        if wording.chance(0.3):
            self._act("The first query can be short.", f"search[{wish.noun}]")
            self._observe(*self._results([item for item in wish.items if not item.is_match]))
            self._act(
                wording(
                    "{None of these is {f}|Nothing here fits}, I will {be more precise|put the features into the query}.",
                    f=wish.features[0],
                ),
                f"search[{' '.join(wish.features)} {wish.noun}]",
            )
        else:
            self._act(
                wording(
                    "{I will search for the item with its features|Let me put everything into one query}.",
                    n=wish.noun,
                ),
                f"search[{' '.join(wish.features)} {wish.noun} {wish.option}]",
            )
        self._observe(*self._results(list(wish.items)))
        chosen = wish.matches[0]
        if len(wish.matches) > 1 and wording.chance(0.5):
            first, chosen = wish.matches
            self._act(f"{first.code} looks right, I check it first.", f"click[{first.code}]")
            self._observe(*self._item_page(first, has_option=False))
            self._act(
                f"{wish.option_name} {wish.option} is not offered here. I go back and take {chosen.code}.",
                "click[Back to Search]",
            )
            self._observe(*self._results(list(wish.items)))
        self._act(
            wording(
                "{code} is {features} and costs ${price}, {so I open it|below the limit; I choose it}.",
                code=chosen.code,
                features=" and ".join(wish.features),
                price=chosen.price,
            ),
            f"click[{chosen.code}]",
        )
        self._observe(*self._item_page(chosen, has_option=True))
        self._act(f"The option {wish.option} is the one to pick.", f"click[{wish.option}]")
        self._observe(finding(f"You have clicked {wish.option}."))
        self.builder.add(
            "assistant",
            *self._thought("Everything fits, I buy it."),
            finding("Action: click[Buy Now]"),
        )
        if wording.chance(0.6):
            self._observe(
                decision(
                    wording(
                        "{Your score (min 0.0, max 1.0): 1.0|Thank you for shopping with us! Order placed: {code}}",
                        code=chosen.code,
                    )
                )
            )

    def _open(self) -> None:
        wording = self.wording
        rules = wording(
            "You are {shopping|buying something} in a {web shop|text based shop}. {Two actions exist|You can act in two ways}: search[keywords] and click[value]. {Click only what the page shows in brackets|The value must be one of the bracketed texts on the page}. {Buy exactly one item.|Do not buy above the price limit.}"
        )
        if wording.chance(0.4):
            rules += "\n\n" + guidelines(wording, 1, 2)
        if wording.chance(0.5):
            self.builder.add("system", instruction(rules))
            lead: tuple[Piece, ...] = ()
        else:
            lead = (instruction(rules + "\n\n"),)
        demo = (context(self._demonstration()),) if wording.chance(0.35) else ()
        task = f"WebShop\nInstruction:\n{_task(wording, self.wish)}\n"
        self.builder.add("user", *lead, *demo, instruction(task), context("[Search]"))

    def _demonstration(self) -> str:
        other = draw_wish(self.wording)
        item = other.matches[0]
        return (
            f"Instruction:\n{_task(self.wording, other)}\n[Search]\n\nAction: search[{other.noun}]\n"
            f"Observation:\n[Back to Search]\nPage 1 (Total results: {len(other.items)})\n[{item.code}]\n{item.title}\n${item.price}\n\n"
            f"Action: click[{item.code}]\nObservation:\n{other.option_name} [{']['.join(other.all_options)}]\n[Buy Now]\n\n"
            f"Action: click[{other.option}]\n\nAction: click[Buy Now]\n\n"
        )

    def _thought(self, text: str) -> tuple[Piece, ...]:
        return (decision(f"Thought: {text}\n"),) if self.thinks == "inline" else ()

    def _act(self, thought: str, action: str) -> None:
        if self.thinks == "think_action" and self.wording.chance(0.7):
            self.builder.add("assistant", decision(f"Action: think[{thought}]"))
            self._observe(context("OK."))
        self.builder.add("assistant", *self._thought(thought), finding(f"Action: {action}"))

    def _observe(self, *pieces: Piece) -> None:
        self.builder.add(self.observer, *surround(pieces, "Observation: "))

    def _results(self, items: list[Item]) -> tuple[Piece, ...]:
        pieces = [
            context(f"\n[Back to Search]\nPage 1 (Total results: {self.num_results})\n[Next >]\n")
        ]
        for item in items:
            row = f"[{item.code}]\n{item.title}\n${item.price}\n"
            pieces.append(finding(row) if item.is_match else context(row))
        return tuple(pieces)

    def _item_page(self, item: Item, *, has_option: bool) -> tuple[Piece, ...]:
        options = [o for o in self.wish.all_options if has_option or o != self.wish.option]
        return (
            context("\n[Back to Search]\n[< Prev]\n"),
            finding(
                f"{self.wish.option_name} [{']['.join(options)}]\n{item.title}\nPrice: ${item.price}\n"
            ),
            context(
                f"Rating: {self.wording.pick(['N.A.', '4.3', '3.9', '4.8'])}\n[Description]\n[Features]\n[Reviews]\n[Buy Now]"
            ),
        )


class _BrowserShop:
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
                f"Now given a task: {_task(wording, wish)}. Put it into the basket at https://{self.shop}/ and report the price.\n"
            ),
            *self._page([], "searchbox"),
        )
        query = " ".join([*wish.features, wish.noun])
        self._act(
            "The start page shows the usual menu and some banners. ",
            "The search box is element 1, I type the query there.",
            f"Type [1]; {query}",
        )
        rows, number = self._rows()
        self._observe(*self._page(rows, "results"))
        self._act(
            "The page lists several articles, most of which lack a feature or cost too much. ",
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
            "The article page is open. ",
            f"I select {wish.option} as the task says.",
            f"Click [{place}]",
        )
        self._observe(finding(wording("{Selected|Option set}: {option}", option=wish.option)))
        self._act(
            "",
            "The option is set, now it goes into the basket.",
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
        self.builder.add(
            "assistant",
            decision(
                f"Thought: The basket holds the article.\nAction: ANSWER; {chosen.title.split(' |')[0]} ({wish.option}) is in the basket for ${chosen.price}."
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
