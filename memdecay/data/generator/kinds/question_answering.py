"""ReAct question answering: thoughts, searches and observations as text."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    context,
    decision,
    finding,
    instruction,
    surround,
)
from memdecay.data.generator.vocabulary.facts import Article, Riddle, draw_riddle
from memdecay.data.generator.wording import Wording

Turn = tuple[str, tuple[Piece, ...]]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A thought, the action it leads to and what comes back."""

    thought: tuple[Piece, ...]
    action: str
    outcome: tuple[Piece, ...]


def write_question_answering(wording: Wording, builder: TraceBuilder) -> None:
    """Write a search for the answer to one question, in one of four layouts."""
    riddle = draw_riddle(wording)
    layout = wording.pick(["turns_tool", "turns_user", "turns_tool", "single_log", "two_logs"])
    is_log = layout in ("single_log", "two_logs")
    has_system = not is_log and wording.chance(0.4)
    opening = _opening(wording, riddle, has_rules=not has_system)
    turns = _search_turns(wording, riddle, is_numbered=wording.chance(0.6))
    if is_log:
        _write_log(builder, opening, turns, is_split=layout == "two_logs")
        return
    if has_system:
        builder.add("system", instruction(_rules(wording)))
    builder.add("user", *opening)
    observer = "tool" if layout == "turns_tool" else "user"
    for role, pieces in turns:
        builder.add(observer if role == "observation" else role, *pieces)
    if wording.chance(0.4):
        builder.add(
            "user",
            decision(
                wording(
                    "{Correct answer: {answer}|Verdict: correct ({answer})|reward = 1, expected {answer}}",
                    answer=riddle.answer,
                )
            ),
        )


def _rules(wording: Wording) -> str:
    return wording(
        "{Solve|Work on} a question answering task with {interleaved|alternating} Thought, Action and Observation steps. "
        "{Thought reasons about the situation|In a Thought you decide what to do next}. Actions are of three kinds:\n"
        "(1) Search[entity] {opens the page with that title|returns the first paragraph of the page};\n"
        "(2) Lookup[keyword] {returns the next sentence with the keyword|finds a word on the page};\n"
        "(3) Finish[answer] {ends the task|returns the answer}.\n{Answer as briefly as you can.|Give only the answer, no sentence.|}"
    ).rstrip()


def _opening(wording: Wording, riddle: Riddle, *, has_rules: bool) -> tuple[Piece, ...]:
    question = f"Question: {riddle.question}"
    if not has_rules or wording.chance(0.3):
        return (instruction(question),)
    pieces = [instruction(_rules(wording) + "\n\n")]
    if wording.chance(0.55):
        pieces[0] = Piece(
            pieces[0].text + wording("{Here are some examples:|Examples follow.|Two examples}\n\n"),
            pieces[0].region,
        )
        pieces.append(context(_demonstrations(wording)))
    if wording.chance(0.35):
        pieces.append(
            decision(
                wording(
                    "Reflections on earlier trials:\n- {I searched for the whole question instead of an entity|I stopped after the first page and guessed}. {Next time I will open every page that is named|I should search the second name as well}.\n\n"
                )
            )
        )
    return (*pieces, instruction(question + "\n"))


def _demonstrations(wording: Wording) -> str:
    text = ""
    for _ in range(wording.number(1, 3)):
        riddle = draw_riddle(wording)
        text += f"Question: {riddle.question}\n"
        for i, (article, note) in enumerate(zip(riddle.articles, riddle.notes, strict=True), 1):
            text += f"Thought {i}: I need to search {article.title}.\nAction {i}: Search[{article.title}]\n"
            text += f"Observation {i}: {' '.join(article.sentences[:4])}\n"
            text += f"Thought {i}.1: {note}.\n"
        text += f"Action: Finish[{riddle.answer}]\n\n"
    return text


def _search_turns(wording: Wording, riddle: Riddle, *, is_numbered: bool) -> list[Turn]:
    turns: list[Turn] = []
    known = ""
    for article, note in zip(riddle.articles, riddle.notes, strict=True):
        for attempt in _attempts(wording, article, known):
            number = f" {len(turns) // 2 + 1}" if is_numbered else ""
            thought = surround(attempt.thought, f"Thought{number}: ", "\n")
            turns.append(("assistant", (*thought, finding(f"Action{number}: {attempt.action}"))))
            turns.append(("observation", surround(attempt.outcome, f"Observation{number}: ")))
        known = note
    number = f" {len(turns) // 2 + 1}" if is_numbered else ""
    last = decision(
        wording(
            "Thought{number}: {known}{, so the answer is {answer}|. That answers the question: {answer}}.\nAction{number}: Finish[{answer}]",
            number=number,
            known=known,
            answer=riddle.answer,
        )
    )
    turns.append(("assistant", (last,)))
    if wording.chance(0.3):
        turns.append(
            (
                "observation",
                (decision(wording("{Answer is CORRECT|Episode finished, reward = 1}")),),
            )
        )
    return turns


def _attempts(wording: Wording, article: Article, known: str) -> list[_Attempt]:
    attempts: list[_Attempt] = []
    thought = _next_thought(wording, known, article)
    if wording.chance(0.25):
        topic = wording.pick(["(biography)", "details", "history", "origin"])
        missing = wording(
            "Could not find {title} {topic}. {Similar: {similar}|There is no page with that title.}",
            title=article.title,
            topic=topic,
            similar=f"['{article.title}', '{article.title} (district)', 'List of parishes']",
        )
        attempts.append(_Attempt(thought, f"Search[{article.title} {topic}]", (finding(missing),)))
        thought = (
            decision(
                wording(
                    "{That title does not exist|No such page}, {I try the plain name|so I search for {title} alone}.",
                    title=article.title,
                )
            ),
        )
    if wording.chance(0.2):
        fact = article.sentences[article.wanted[0]]
        rest = [text for i, text in enumerate(article.sentences) if i not in article.wanted]
        attempts.append(_Attempt(thought, f"Search[{article.title}]", (context(" ".join(rest)),)))
        keyword = wording.pick(
            [word for word in ("born", "finished", "use", "where") if word in fact]
        )
        choice = decision(
            wording(
                '{The paragraph does not say it|Not in this part}. I {look up|will look for} "{keyword}".',
                keyword=keyword,
            )
        )
        attempts.append(
            _Attempt((choice,), f"Lookup[{keyword}]", (finding(f"(Result 1 / 1) {fact}"),))
        )
        return attempts
    pieces = [
        finding(sentence + " ") if i in article.wanted else context(sentence + " ")
        for i, sentence in enumerate(article.sentences)
    ]
    pieces[-1] = Piece(pieces[-1].text.rstrip(), pieces[-1].region)
    attempts.append(_Attempt(thought, f"Search[{article.title}]", tuple(pieces)))
    return attempts


def _next_thought(wording: Wording, known: str, article: Article) -> tuple[Piece, ...]:
    choice = decision(
        wording(
            "{I need to|I should|Next I will} {search|look up|open the page of} {title}{| and read what it says| to get there}.",
            title=article.title,
        )
    )
    if not known:
        return (choice,)
    if wording.chance(0.4):
        retold = context(
            wording(
                "{The page says a lot about the history and the surroundings|The observation describes several things, most of them beside the point|I have read the paragraph}. "
            )
        )
        return (
            retold,
            decision(wording("{So|It follows that|Now I know that} {known}. ", known=known)),
            choice,
        )
    return (decision(wording("{known}. ", known=known)), choice)


def _write_log(
    builder: TraceBuilder, opening: tuple[Piece, ...], turns: list[Turn], *, is_split: bool
) -> None:
    builder.add("user", *opening)
    rows = [surround(pieces, suffix="\n") for _, pieces in turns]
    cut = len(rows) // 2 if is_split else len(rows)
    builder.add("assistant", *(piece for row in rows[:cut] for piece in row))
    if rows[cut:]:
        builder.add("user", context("Continue.\n(5 steps left)"))
        builder.add("assistant", *(piece for row in rows[cut:] for piece in row))
