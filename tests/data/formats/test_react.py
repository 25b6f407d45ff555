from __future__ import annotations

from pathlib import Path

import pytest

from memdecay.data.formats.react import looks_like_react
from memdecay.data.formats.registry import recognise
from memdecay.data.formats.sample import read_sample

ROUND = "Thought: I need the population.\nAction: search[Oslo]\nObservation: About 700,000.\n"
RUN = f"Question: How many people live in Oslo?\n{ROUND}Thought: Done.\nFinal Answer: 700,000\n"
PROSE = "".join(f"Agents are described here at length, part {number}.\n\n" for number in range(12))


@pytest.mark.parametrize(
    "text",
    [
        RUN,
        f"\n\n{RUN}",
        "Thought: easy.\nFinal Answer: 4\n",
        f"Answer the question with the tools.\n\n{RUN}",
        f"{PROSE}{RUN}\n{RUN}",
        f"# Instructions\n\nThink, then act.\n\n{RUN * 4}",
        "Question: q\nThought: t\nAction:\n```\n{}\n```\nObservation: o\n",
        f"Question: read it\n{ROUND}Observation: # A page\n\n## with headings\n",
    ],
)
def test_logs_are_told(text: str) -> None:
    assert looks_like_react(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        PROSE,
        f"{PROSE}{ROUND}\n{PROSE}",
        f"# ReAct in brief\n\nIt goes like this:\n\n{ROUND}\nThen it repeats.\n",
        f"# Notes\n\n{PROSE}```text\n{RUN * 5}```\n\nMore.\n",
        f"{PROSE}~~~\n{RUN}~~~\n",
        "Thought: one.\nThought: two.\n",
    ],
)
def test_texts_about_them_are_not(text: str) -> None:
    assert not looks_like_react(text)


def test_markdown_with_an_example_is_of_no_known_format(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"# A library\n\nIts agents write\n\n{ROUND}\nand so on.\n")
    assert recognise(read_sample(path)) is None
