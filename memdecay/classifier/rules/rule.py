"""What a rule is: a name, a weight and a function that proposes regions for stretches of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from memdecay.classifier.regions import Region
from memdecay.classifier.rules.conversation import Conversation


class Proposal(NamedTuple):
    """A rule's opinion: these characters of this message belong to that region.

    Attributes:
        message: The message's place in the conversation.
        start: First character.
        end: End, exclusive.
        region: The region proposed.
        confidence: How sure the rule is, above 0 and up to 1.
    """

    message: int
    start: int
    end: int
    region: Region
    confidence: float


Propose = Callable[[Conversation], Iterable[Proposal]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named source of proposals.

    Attributes:
        name: Unique among the rules.
        summary: One line on what it looks at.
        propose: Returns its proposals for a conversation; a pure function.
        weight: What its confidence counts for when rules disagree, above 0.
    """

    name: str
    summary: str
    propose: Propose
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            ValueError: The name is empty, or the weight is not above 0 and finite.
        """
        if not self.name:
            raise ValueError("name must not be empty")
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise ValueError(f"weight must be above 0 and finite, got {self.weight}")
