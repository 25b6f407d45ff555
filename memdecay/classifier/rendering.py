"""Turn a conversation into the text an LLM reads, knowing where each message stands in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memdecay.classifier.chat_template import calls_as_text, render_with_template
from memdecay.classifier.messages import ChatMessage, chat_message
from memdecay.classifier.placement import Body, Frame, PlacedText, place


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """Where one message stands in the rendered text; all ends are exclusive.

    Attributes:
        index: Its place in the conversation.
        role: Its role as the source spells it.
        start: First character of the message, its template text included.
        end: Its end.
        content_start: First character of the content.
        content_end: The content's end.
        calls_start: First character of the structured tool calls; an empty range if there are none.
        calls_end: The calls' end.
        content_skip: Characters at the content's beginning that the template trimmed: character
            ``c`` of the content stands at ``content_start + c - content_skip``.
    """

    index: int
    role: str
    start: int
    end: int
    content_start: int
    content_end: int
    calls_start: int
    calls_end: int
    content_skip: int = 0


@dataclass(frozen=True, slots=True)
class RenderedConversation:
    """A conversation as one text.

    Attributes:
        text: What the LLM reads.
        messages: The place of every message, in order, without gaps. Text before the first (a
            system prompt that the template inserts) belongs to none.
        generation_prompt: The head of the answer that is to be written, if one was asked for: an
            assistant's message without content yet.
        is_neutral: Whether the neutral rendering was used.
        sources: The messages as they were given.
    """

    text: str
    messages: tuple[RenderedMessage, ...]
    generation_prompt: RenderedMessage | None = None
    is_neutral: bool = False
    sources: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    @property
    def parts(self) -> tuple[RenderedMessage, ...]:
        """The messages and, if there is one, the generation prompt as the last."""
        prompt = self.generation_prompt
        return self.messages if prompt is None else (*self.messages, prompt)


def render(
    messages: Sequence[Mapping[str, Any]],
    tokenizer: Any,
    *,
    add_generation_prompt: bool = False,
    force_neutral: bool = False,
) -> RenderedConversation:
    """Render OpenAI chat messages with the tokenizer's chat template.

    Structured calls go to the template if it knows them, else they follow the content as text
    (JSON in ``<tool_call>`` tags). Roles get their standard names; tool results become user
    messages where the template refuses ``tool``. Where it still refuses (the order of roles, most
    often), drops a message, or where there is none, the neutral rendering is used: for each
    message ``[role]``, a line break, the content with its calls, an empty line.

    Contents reach the text unchanged but for white space that the template trims. If it rewrites
    them otherwise (drops earlier reasoning, say), it is given placeholders and the contents as
    they are take their place.

    Args:
        messages: The conversation, at least one message; for the shapes see
            `memdecay.classifier.messages.chat_message`.
        tokenizer: A transformers tokenizer.
        add_generation_prompt: Whether to add the head of an assistant's answer.
        force_neutral: Use the neutral rendering without asking the template.

    Raises:
        ValueError: There are no messages.
    """
    if not messages:
        raise ValueError("a conversation needs at least one message, got none")
    chat = [chat_message(message) for message in messages]
    placed = None
    if not force_neutral:
        placed = render_with_template(chat, tokenizer, add_generation_prompt)
    is_neutral = placed is None
    if placed is None:
        placed = _render_neutrally(chat, add_generation_prompt)
    return RenderedConversation(
        text=placed.text,
        messages=_rendered_messages(chat, placed),
        generation_prompt=_generation_prompt(len(chat), placed) if add_generation_prompt else None,
        is_neutral=is_neutral,
        sources=tuple(messages),
    )


def _render_neutrally(messages: Sequence[ChatMessage], add_generation_prompt: bool) -> PlacedText:
    bodies = [Body(message.content, calls_as_text(message)) for message in messages]
    heads = [f"[{message.role}]\n" for message in messages]
    frame = Frame((heads[0], *(f"\n\n{head}" for head in heads[1:]), "\n\n"))
    text = "".join(f"{head}{body.text}\n\n" for head, body in zip(heads, bodies, strict=True))
    placed = place(text, frame, frame, bodies)
    prompt = "[assistant]\n" if add_generation_prompt else ""
    return PlacedText(placed.text + prompt, placed.places, prompt)


def _rendered_messages(
    messages: Sequence[ChatMessage], placed: PlacedText
) -> tuple[RenderedMessage, ...]:
    return tuple(
        RenderedMessage(
            index=index,
            role=message.role,
            start=where.start,
            end=where.end,
            content_start=where.content_start,
            content_end=where.content_end,
            calls_start=where.calls_start,
            calls_end=where.calls_end,
            content_skip=where.content_skip,
        )
        for index, (message, where) in enumerate(zip(messages, placed.places, strict=True))
    )


def _generation_prompt(index: int, placed: PlacedText) -> RenderedMessage:
    end = len(placed.text)
    start = end - len(placed.generation_prompt)
    return RenderedMessage(index, "assistant", start, end, end, end, end, end)
