"""The operator's file of beginnings that are read before the first request."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memdecay.classifier.errors import ConfigError
from memdecay.serving.engine.config import SharedPrompt

_KEYS = frozenset({"system", "messages", "tools", "tenant", "cache_salt"})


def read_shared_prompts(path: Path) -> tuple[SharedPrompt, ...]:
    """Read a TOML file of ``[[prompt]]`` tables.

    Each has the text ``system`` or a list ``messages`` of OpenAI chat messages, and may have a list
    ``tools``, the ``tenant`` whose conversations begin so (left out, the prompt is public: all
    tenants share it) and its ``cache_salt``.

    Raises:
        ConfigError: The file can't be read, or a table is none of these.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} can't be read as a TOML file of prompts ({error})") from error
    tables = data.pop("prompt", [])
    if data or not isinstance(tables, list) or not tables:
        raise ConfigError(f"{path}: expected [[prompt]] tables and nothing else")
    return tuple(_shared_prompt(path, number, table) for number, table in enumerate(tables, 1))


def _shared_prompt(path: Path, number: int, table: object) -> SharedPrompt:
    where = f"{path}: prompt {number}"
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} must be a table, got {table!r}")
    if unknown := sorted(set(table) - _KEYS):
        raise ConfigError(f"{where} has the key {unknown[0]!r}; known are {', '.join(_KEYS)}")
    for key in ("system", "tenant", "cache_salt"):
        if not isinstance(table.get(key, ""), str):
            raise ConfigError(f"{where}: {key} must be a text, got {table[key]!r}")
    if "cache_salt" in table and "tenant" not in table:
        raise ConfigError(f"{where}: a cache_salt needs a tenant; a public prompt has none")
    return SharedPrompt(
        messages=_messages(where, table),
        tenant=table.get("tenant"),
        cache_salt=table.get("cache_salt", ""),
        tools=_mappings(where, "tools", table.get("tools", [])),
    )


def _messages(where: str, table: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    if ("system" in table) == ("messages" in table):
        raise ConfigError(f"{where} needs either system or messages, exactly one of them")
    if "system" in table:
        return ({"role": "system", "content": table["system"]},)
    messages = _mappings(where, "messages", table["messages"])
    if not messages or not all(isinstance(message.get("role"), str) for message in messages):
        raise ConfigError(f"{where}: messages must hold messages with a role, at least one")
    return messages


def _mappings(where: str, key: str, value: object) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise ConfigError(f"{where}: {key} must be a list of tables, got {value!r}")
    return tuple(value)
