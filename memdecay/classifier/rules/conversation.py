"""A conversation as the rules see it: who speaks, what answers what, a task run or a chat."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from memdecay.classifier.messages import ChatMessage, chat_message
from memdecay.classifier.roles import ROLES, role_code
from memdecay.classifier.rules.parts import Part, PartKind, find_parts
from memdecay.classifier.rules.segments import Segment, split_segments


class Speaker(Enum):
    """Who a message comes from, whatever its role says."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message, read.

    Attributes:
        index: Its place in the conversation.
        speaker: Who it comes from.
        text: Its content.
        lower: The same in lower case, character by character.
        segments: The content in pieces, without gaps.
        calls: Its structured calls as text.
        parts: Calls written as text, code and final answers in it (assistant only).
        asked: For a result, the text of the call that it answers; empty if unknown.
        calls_in_text: Whether one of the parts is a call.
        is_opening: Whether it stands before the first assistant message.
        is_chat: Whether, by what was read up to here, a person converses with the agent; else the
            agent works on one task.
    """

    index: int
    speaker: Speaker
    text: str
    lower: str
    segments: tuple[Segment, ...]
    calls: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    asked: str = ""
    is_opening: bool = False
    is_chat: bool = False
    calls_in_text: bool = False

    @property
    def acts(self) -> bool:
        """Whether a call goes out from this message, structured or as text."""
        return bool(self.calls) or self.calls_in_text

    def segment_text(self, segment: Segment) -> str:
        """Return the characters of one of the segments."""
        return self.text[segment.start : segment.end]

    def segments_with(self, pattern: re.Pattern[str]) -> Iterator[Segment]:
        """Yield each segment in which a match of a lower-case pattern ends, once.

        Searching the whole text at once, case folded beforehand, is several times faster than
        asking the same of each segment.
        """
        last = -1
        for match in pattern.finditer(self.lower):
            place = bisect_right(self.segments, max(match.end() - 1, 0), key=_start) - 1
            if place != last:
                last = place
                yield self.segments[place]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns and whether rules may look at later ones.

    Attributes:
        turns: All messages in order.
        lookahead: Whether a rule may use turns after the one that it labels.
    """

    turns: tuple[Turn, ...]
    lookahead: bool = True

    def of(self, *speakers: Speaker) -> Iterator[Turn]:
        """Yield the turns of some speakers."""
        return (turn for turn in self.turns if turn.speaker in speakers)


def lower_case(text: str) -> str:
    """Return the text in lower case with every character at its place.

    A character whose lower case is longer stays as it is.
    """
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def _start(segment: Segment) -> int:
    return segment.start


_RESULT_OPENING = re.compile(
    r"\s*(?:observation(?: \d+)?\s*[:\uff1a]|<(?:returncode|output|tool_response|function_results?|"
    r"tool_result|observation|result|exit_code|warning|error|system_warning|stdout)\b|"
    r"(?:tool|function|execution|command|exec)[\w ]{0,20}(?:output|results?|response)\b|"
    r"exitcode: |exit code|\[(?:file|the command|exit)|traceback \(|"
    r"role='tool'|(?:/bin/)?(?:ba)?sh: |error:|warning:|"
    r"please always provide|format error|no tool calls?|your (?:last|proposed|output))",
    re.IGNORECASE,
)
_REPORT_CHARS = 600
_REPORTED_RESULT = re.compile(
    r"\s*(?:(?:function|tool)(?: call)? (?:output|result|response)s?\s*[:\uff1a]|exitcode: |"
    r"execution (?:output|result)s?\s*[:\uff1a]|<(?:tool_response|function_results?|returncode)\b|"
    r"I (?:typed|clicked|scrolled|hovered|navigated|visited|selected)\b"
    r"[^\n]*(?:\n[^\n]*){0,8}?(?:screenshot|viewport|web ?page))",
    re.IGNORECASE,
)
_PERSONAL = re.compile(
    r"\b(?:I|I'm|I'd|I'll|I've|my|me|you|your|please|thanks?|yes|no|okay|ok|sure|hi|hello)\b"
    r"|[我你您请吗]",
    re.IGNORECASE,
)


_MAX_QUESTION_CHARS = 400
_OPENING_CHARS = 12
_LABELLED = re.compile(
    r"\s*(?:[a-z]+ ?\n ?)?(?:question|task|instruction|problem|goal)\b", re.IGNORECASE
)


def opens_alike(text: str, opening: str) -> bool:
    """Tell whether a text states another task of the kind that an opening message states."""
    if not _LABELLED.match(opening) or opening.strip() == text.strip():
        return False
    return text[:_OPENING_CHARS].strip().lower() == opening[:_OPENING_CHARS].strip().lower()


@dataclass(slots=True)
class ConversationReader:
    """Reads messages in order; holds what the earlier ones say about the later ones.

    Attributes:
        opening: The first message of a user; None before it.
        pending: The calls that wait for their results, as text.
        has_answered: Whether the assistant has spoken.
        mood: What was heard of a chat or a task run.
    """

    opening: str | None = None
    pending: list[str] = field(default_factory=list)
    has_answered: bool = False
    mood: _Mood = field(default_factory=lambda: _Mood())

    def next_turn(self, index: int, message: ChatMessage) -> Turn:
        """Return the next message, read by what is known up to it and from it."""
        turn = self.read(index, message)
        return _with_chat(turn, self.mood.hears_chat_in(turn))

    def read(self, index: int, message: ChatMessage) -> Turn:
        """Return the next message; whether it is part of a chat is left open."""
        speaker = self._speaker(message)
        parts = find_parts(message.content) if speaker is Speaker.ASSISTANT else ()
        calls = tuple(call.to_text() for call in message.calls)
        asked = ""
        if speaker is Speaker.RESULT and self.pending:
            asked = self.pending.pop(0) if len(self.pending) > 1 else self.pending[0]
        is_opening = not self.has_answered and speaker in (Speaker.SYSTEM, Speaker.USER)
        if speaker is Speaker.ASSISTANT:
            self.has_answered = True
            self.pending = _issued(message.content, calls, parts)
        turn = Turn(
            index=index,
            speaker=speaker,
            text=message.content,
            lower=lower_case(message.content),
            segments=split_segments(message.content),
            calls=calls,
            parts=parts,
            asked=asked,
            is_opening=is_opening,
            calls_in_text=any(part.kind is PartKind.CALL for part in parts),
        )
        self.mood.hear(turn)
        return turn

    def _speaker(self, message: ChatMessage) -> Speaker:
        code = role_code(message.role)
        role = ROLES[code] if code >= 0 else "other"
        if role == "system":
            return Speaker.SYSTEM
        if role == "assistant":
            is_report = not message.calls and _REPORTED_RESULT.match(
                message.content[:_REPORT_CHARS]
            )
            return Speaker.RESULT if is_report else Speaker.ASSISTANT
        if role == "tool":
            return Speaker.RESULT
        if self.opening is None:
            self.opening = message.content
        elif opens_alike(message.content, self.opening):
            return Speaker.USER
        if self.has_answered and self._is_result(message.content):
            return Speaker.RESULT
        return Speaker.RESULT if role == "other" and self.pending else Speaker.USER

    def _is_result(self, text: str) -> bool:
        if _RESULT_OPENING.match(text):
            return True
        return bool(self.pending) and not self.mood.is_chat and not _is_spoken(text)


def _is_spoken(text: str) -> bool:
    if len(text) < _MAX_QUESTION_CHARS and text.rstrip().endswith(("?", "\uff1f")):
        return True
    head = text[:400]
    words = len(head.split()) + len(head) // 30
    return len(text) < 1500 and len(_PERSONAL.findall(head)) * 12 >= words


def _issued(text: str, calls: tuple[str, ...], parts: tuple[Part, ...]) -> list[str]:
    if calls:
        return list(calls)
    return [text[part.start : part.end] for part in parts if part.kind is not PartKind.FINAL]


_GREETING = re.compile(
    r"\s*(?:hi|hello|hey|good (?:morning|day|evening)|你好|您好)\b", re.IGNORECASE
)
_SERVICE_SYSTEM = re.compile(
    r"\b(?:customers?|help users?|assist(?:ing)? users?|user'?s? (?:id|request|identity)|"
    r"(?:airline|retail|telecom|support|service) (?:agent|assistant|representative)|"
    r"with access to the following functions)\b",
    re.IGNORECASE,
)
_TASK_SYSTEM = re.compile(
    r"\b(?:bash|shell|command line|terminal|repository|Thought:|Action:|browsing the web|"
    r"programm(?:er|ing)|final answer)\b|THOUGHT",
    re.IGNORECASE,
)
_TASK_OPENING = re.compile(
    r"^[ \t]*(?:question|task|issue|instruction|problem|goal|given)\s*[:\uff1a]|"
    r"your (?:task|job) is|"
    r"<(?:issue|pr_description|task|uploaded_files)\b|issue text|^#+ |\btask is to\b|"
    r"^(?:given|write|implement|describe|find|solve|fix) |^---|### ",
    re.IGNORECASE | re.MULTILINE,
)
_ANY_ASSISTANT = re.compile(
    r"\s*(?:you(?:'re| are) (?:an? )?(?:\w+[ ,]+){0,4}(?:assistant|ai|chatbot|bot)\b.{0,200}\Z|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_STATED_TASK = re.compile(r"\b(?:your|our|my) (?:job|task|goal) is\b|\btask:|^#+ ", re.I | re.M)
_MAX_CHAT_OPENING_CHARS = 1200
_MARKED = re.compile(
    r"\s*[<>]? ?(?:(?:initial|new|updated|my) )?"
    r"(?:thoughts?|think(?:ing)?|reason(?:ing)?|plan|ledger)\b[ \d]*[:>]",
    re.IGNORECASE,
)
_ADDRESSING = re.compile(
    r"\b(?:I'm|I'd|I am|I want|I need|I have|I would|can you|could you|help me|our|my)\b|"
    r"[我你您请吗]|如何|什么",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Mood:
    """Evidence for a chat (above zero) or a task run (zero and below)."""

    evidence: float = 0.0
    has_system: bool = False
    has_user: bool = False
    has_task: bool = False
    has_acted: bool = False
    was_assistant: bool = False
    num_replies: int = 0

    @property
    def is_chat(self) -> bool:
        return self.evidence > 0

    def hears_chat_in(self, turn: Turn) -> bool:
        """Tell whether a message is part of a chat; an answer may be where the question is not.

        Where nobody has set a task and nothing was done yet, an answer is talk.
        """
        if self.is_chat or turn.speaker is not Speaker.ASSISTANT:
            return self.is_chat
        is_plain = not (self.has_system or self.has_task or self.has_acted)
        is_marked = _MARKED.match(turn.text) or any(p.kind is PartKind.FINAL for p in turn.parts)
        return is_plain and not is_marked

    def hear(self, turn: Turn) -> None:
        self.has_acted = self.has_acted or turn.acts or turn.speaker is Speaker.RESULT
        if turn.speaker is Speaker.SYSTEM:
            self.has_system = self.has_system or not _ANY_ASSISTANT.match(turn.text)
            self.evidence += 2.0 * bool(_SERVICE_SYSTEM.search(turn.text))
            self.evidence -= 2.0 * bool(_TASK_SYSTEM.search(turn.text))
        elif turn.speaker is Speaker.USER:
            self._hear_user(turn.text)
        elif turn.speaker is Speaker.ASSISTANT:
            self.evidence -= 1.5 * (bool(turn.parts) and turn.acts)
            # Agents that answer one another work on something.
            self.evidence -= 2.0 * (self.was_assistant and not turn.acts)
            self.has_task = self.has_task or self.was_assistant
        self.was_assistant = turn.speaker is Speaker.ASSISTANT

    def _hear_user(self, text: str) -> None:
        if self.has_user:
            self.evidence += 1.0 if self.num_replies < 4 and len(text) < 1000 else 0.0
            self.num_replies += 1
            return
        self.has_user = True
        self.has_task = bool(
            len(text) > _MAX_CHAT_OPENING_CHARS
            or _LABELLED.match(text)
            or _STATED_TASK.search(text)
        )
        self.evidence += 2.0 * bool(_GREETING.match(text))
        self.evidence += 1.0 * bool(_ADDRESSING.search(text[:600]))
        self.evidence -= 2.0 * bool(_TASK_OPENING.search(text))
        self.evidence -= 1.5 if len(text) > _MAX_CHAT_OPENING_CHARS else 0.5


def read_conversation(
    messages: Sequence[Mapping[str, Any]], *, lookahead: bool = True
) -> Conversation:
    """Read OpenAI chat messages of any shape.

    Args:
        messages: The conversation; see `memdecay.classifier.messages.chat_message` for the shapes.
        lookahead: Whether later messages may bear on earlier ones. Without it, what is said about
            a message depends on it and those before it only.
    """
    reader = ConversationReader()
    turns = []
    for index, message in enumerate(messages):
        turn = reader.read(index, chat_message(message))
        turns.append((turn, reader.mood.hears_chat_in(turn)))
    mood = reader.mood
    return Conversation(
        tuple(
            _with_chat(turn, mood.hears_chat_in(turn) if lookahead else so_far)
            for turn, so_far in turns
        ),
        lookahead,
    )


def _with_chat(turn: Turn, is_chat: bool) -> Turn:
    return replace(turn, is_chat=is_chat)
