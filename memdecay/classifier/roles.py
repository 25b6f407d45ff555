"""Who writes a message, whatever its source calls the role."""

from __future__ import annotations

ROLES = ("system", "user", "assistant", "tool", "other")
UNKNOWN_ROLE = -1
"""The role code of tokens that no message holds; their role features are all zero."""

_ALIASES = {
    "developer": "system",
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "gemini": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "function": "tool",
    "function_response": "tool",
    "ipython": "tool",
    "observation": "tool",
    "tool_response": "tool",
    "toolresult": "tool",
}


def role_code(role: str) -> int:
    """Return the index in `ROLES` of a message's role, whatever its spelling.

    Free names are ``other``; an empty role is `UNKNOWN_ROLE`.

    >>> role_code("human"), role_code("toolResult"), role_code("get_weather")
    (1, 3, 4)
    """
    name = role.strip().lower()
    if not name:
        return UNKNOWN_ROLE
    name = _ALIASES.get(name, name)
    return ROLES.index(name) if name in ROLES else ROLES.index("other")
