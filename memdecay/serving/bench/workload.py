"""What the agents say, drawn from recorded runs and cut so that it fits the model's context."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, islice
from typing import Any

from memdecay.classifier.errors import ConfigError, TraceError
from memdecay.classifier.features import role_code
from memdecay.classifier.messages import chat_message
from memdecay.serving.bench.config import LoadConfig

SYSTEM_TOKENS = 256
_MOST_ROUND_TOKENS = 256
_FEWEST_ROUND_TOKENS = 8
# What a chat template adds to a round's message and its answer, with room to spare.
_TEMPLATE_TOKENS = 14
_CHARACTERS_PER_TOKEN = 16
_SYSTEM, _ASSISTANT = role_code("system"), role_code("assistant")
_TOOL = role_code("tool")


@dataclass(frozen=True, slots=True)
class AgentScript:
    """What one agent says.

    Attributes:
        opening: The system message, if there is one.
        rounds: The new message of each round.
    """

    opening: tuple[Mapping[str, str], ...]
    rounds: tuple[Mapping[str, str], ...]


def make_scripts(
    traces: Sequence[Sequence[Mapping[str, Any]]],
    config: LoadConfig,
    tokenizer: Any,
    max_context: int,
) -> tuple[AgentScript, ...]:
    """Draw the agents' rounds from recorded runs.

    Each agent begins at another run and goes on with the next ones where a run is too short. It
    says what users and tools said there; the answers are the server's own. The round of the long
    tool result takes the agent's longest messages, one after the other, up to its length.

    Args:
        traces: Conversations of OpenAI chat messages.
        config: How many agents and rounds, and how long.
        tokenizer: The model's tokenizer.
        max_context: Most tokens of a conversation.

    Raises:
        ConfigError: The conversation of that many rounds would not fit the context.
        TraceError: The traces hold nothing that users or tools said.
    """
    round_tokens = _round_tokens(config, max_context)
    used = [trace for trace in traces if _said(trace)]
    if not used:
        raise TraceError(
            "the traces hold no messages of users or tools; give agent runs with --traces"
        )
    said = list(map(_said, used))
    scripts = []
    for agent in range(config.num_agents):
        start = agent % len(used)
        own = [*said[start:], *said[:start]]
        spoken = islice(cycle(chain.from_iterable(own)), config.num_rounds)
        rounds = [_message(text, role, round_tokens, tokenizer) for text, role in spoken]
        # No two agents hold the same conversation, however few the traces are.
        rounds[0] = rounds[0] | {"content": f"Agent {agent + 1}. {rounds[0]['content']}"}
        if config.dump_round <= config.num_rounds:
            dump = _dump(own[0], config.dump_tokens, tokenizer)
            rounds[config.dump_round - 1] = {"role": "tool", "content": dump}
        scripts.append(AgentScript(_opening(used[start], tokenizer), tuple(rounds)))
    return tuple(scripts)


def digest_of(scripts: Sequence[AgentScript]) -> str:
    """Return what names a workload: the same only if every message is."""
    data = [[script.opening, script.rounds] for script in scripts]
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]


def _round_tokens(config: LoadConfig, max_context: int) -> int:
    fixed = config.max_tokens + _TEMPLATE_TOKENS
    left = max_context - SYSTEM_TOKENS - config.dump_tokens - config.num_rounds * fixed
    fitting = left // config.num_rounds
    wanted = config.round_tokens or min(fitting, _MOST_ROUND_TOKENS)
    if wanted > fitting or wanted < _FEWEST_ROUND_TOKENS:
        raise ConfigError(
            f"{config.num_rounds} rounds with answers of {config.max_tokens} tokens and a tool "
            f"result of {config.dump_tokens} leave {max(0, fitting)} tokens for each round's "
            f"message in the model's context of {max_context}, expected "
            f"{max(wanted, _FEWEST_ROUND_TOKENS)}; lower --rounds, --dump-tokens or --max-tokens"
        )
    return wanted


def _said(trace: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return text and role of what did not come from the assistant or the system."""
    found = []
    for message in map(chat_message, trace):
        code = role_code(message.role)
        if code not in (_SYSTEM, _ASSISTANT) and message.content.strip():
            found.append((message.content, "tool" if code == _TOOL else "user"))
    return found


def _opening(trace: Sequence[Mapping[str, Any]], tokenizer: Any) -> tuple[Mapping[str, str], ...]:
    first = chat_message(trace[0])
    if role_code(first.role) != _SYSTEM or not first.content.strip():
        return ()
    return (_message(first.content, "system", SYSTEM_TOKENS, tokenizer),)


def _message(text: str, role: str, num_tokens: int, tokenizer: Any) -> dict[str, str]:
    return {"role": role, "content": _cut(text, num_tokens, tokenizer)}


def _dump(said: Sequence[tuple[str, str]], num_tokens: int, tokenizer: Any) -> str:
    longest_first = sorted((text for text, _ in said), key=len, reverse=True)
    text = "\n".join(longest_first)
    while True:
        cut = _cut(text, num_tokens, tokenizer)
        if len(cut) < len(text) or len(text) > num_tokens * _CHARACTERS_PER_TOKEN:
            return cut
        text = f"{text}\n{text}"


def _cut(text: str, num_tokens: int, tokenizer: Any) -> str:
    """Return the beginning of a text that has at most so many tokens."""
    # Tokenizing takes longer than counting characters.
    text = text[: num_tokens * _CHARACTERS_PER_TOKEN]
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    offsets = encoding["offset_mapping"]
    return text if len(offsets) <= num_tokens else text[: offsets[num_tokens - 1][1]]
