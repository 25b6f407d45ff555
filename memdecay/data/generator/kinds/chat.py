"""Plain chat without tools: questions, explanations, and preferences that bind the answers."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import TraceBuilder, decision, dialogue, instruction
from memdecay.data.generator.vocabulary.topics import SUBJECTS, Subject
from memdecay.data.generator.wording import Wording

_WISHES = (
    "{Please|And please} {answer in plain words, I am a beginner|keep it under ten lines}.",
    "{From now on|For the rest of this chat}, {no tables please|use metric units only|leave out the introductions}.",
    "I {am allergic to long answers|read this on a phone}, so short paragraphs{ please|}.",
)


def write_chat(wording: Wording, builder: TraceBuilder) -> None:
    """Write a conversation about one to three subjects."""
    if wording.chance(0.6):
        builder.add(
            "system",
            instruction(
                wording(
                    "You are {a helpful|a patient|a knowledgeable} assistant{.|, and you say so when you are not sure.} {Answer in English.|Never give medical or legal advice.|Be honest about what you don't know.|}"
                ).rstrip()
            ),
        )
    if wording.chance(0.25):
        _answer_one_question(wording, builder)
        return
    subjects = wording.shuffled(SUBJECTS)[: wording.pick([2, 3, 4, 6, 8])]
    for i, subject in enumerate(subjects):
        _ask(wording, builder, subject, is_first=i == 0)
    if wording.chance(0.5):
        builder.add(
            "user", dialogue(wording("{Thanks|Thank you}{, that helps a lot|, very clear|}!"))
        )
        builder.add(
            "assistant",
            dialogue(
                wording(
                    "{You're welcome|My pleasure}! {Come back any time.|Good luck with it.|}"
                ).rstrip()
            ),
        )


def _answer_one_question(wording: Wording, builder: TraceBuilder) -> None:
    """Write a run that serves one question: the question is the task, the answer the result."""
    subject = wording.pick(SUBJECTS)
    frame = wording(
        "{Task: |Question: |Your task is to answer this: |}{question}{ Give a complete answer in one message.| The answer goes to a customer, so it must stand alone.| Only the answer, please.|}",
        question=wording(subject.question),
    )
    builder.add("user", instruction(frame))
    builder.add("assistant", decision(_explanation(wording, subject, is_final=True)))


def _ask(wording: Wording, builder: TraceBuilder, subject: Subject, *, is_first: bool) -> None:
    question = dialogue(
        wording("{Hi! |Hello, |}" if is_first else "{Something else: |Next question. |}")
        + wording(subject.question)
    )
    if wording.chance(0.45):
        builder.add("user", question, decision(" " + wording(wording.pick(_WISHES))))
    else:
        builder.add("user", question)
    builder.add("assistant", dialogue(_explanation(wording, subject)))
    for follow_up, answer in wording.some(subject.follow_ups, 0, len(subject.follow_ups)):
        builder.add("user", dialogue(follow_up))
        builder.add(
            "assistant", dialogue(wording("{Good question. ||In short: }") + wording(answer))
        )


def _explanation(wording: Wording, subject: Subject, *, is_final: bool = False) -> str:
    sentences = [
        wording(text) for text in wording.some(subject.sentences, 3, len(subject.sentences))
    ]
    style = wording.pick(["prose", "paragraphs", "bullets"])
    if style == "bullets":
        text = wording("{Here is what matters:|The main points:|Sure.}\n\n") + "\n".join(
            f"- {s}" for s in sentences
        )
    else:
        text = (" " if style == "prose" else "\n\n").join(sentences)
    if subject.example and wording.chance(0.7):
        text += wording("\n\n{For example:|Here is an example:|A sketch:}\n\n") + subject.example
    if is_final:
        return text
    return text + wording("{\n\nDo you want to know more about a part of it?|}")
