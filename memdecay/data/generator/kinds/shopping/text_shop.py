"""A web shop as a text game of searches and clicks."""
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
from memdecay.data.generator.vocabulary.goods import Item, Wish, draw_wish
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.wording import Wording


class TextShop:
    """The shop as a text game with search[...] and click[...]."""

    def __init__(self, wording: Wording, builder: TraceBuilder, wish: Wish) -> None:
        self.wording, self.builder, self.wish = wording, builder, wish
        self.observer = wording.pick(["user", "tool"])
        self.num_results = wording.number(12, 50)
        self.thinks = wording.pick(["inline", "think_action", "none"])

    def write(self) -> None:
        """Write the purchase from the first search to the order."""
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
        self._act(
            wording(
                "{The option {option} is the one to pick|I choose {option}|Now set {name} to {option}}.",
                option=wish.option,
                name=wish.option_name,
            ),
            f"click[{wish.option}]",
        )
        self._observe(finding(f"You have clicked {wish.option}."))
        self.builder.add(
            "assistant",
            *self._thought(
                wording(
                    "{Everything fits, I buy it|All wishes are met, so I order|Price and option are right: buy}."
                )
            ),
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
        task = f"WebShop\nInstruction:\n{describe_task(wording, self.wish)}\n"
        self.builder.add("user", *lead, *demo, instruction(task), context("[Search]"))

    def _demonstration(self) -> str:
        other = draw_wish(self.wording)
        item = other.matches[0]
        return (
            f"Instruction:\n{describe_task(self.wording, other)}\n[Search]\n\nAction: search[{other.noun}]\n"
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
