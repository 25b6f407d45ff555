"""The operator's file of shared prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from memdecay.classifier.errors import ConfigError
from memdecay.serving.engine.config import SharedPrompt
from memdecay.serving.engine.prompt_file import read_shared_prompts


def test_prompts_are_public_or_a_tenants(tmp_path: Path) -> None:
    path = tmp_path / "prompts.toml"
    path.write_text(
        """
[[prompt]]
system = "You book flights."

[[prompt]]
tenant = "alice"
cache_salt = "x"
messages = [{role = "system", content = "Hi"}, {role = "user", content = "Begin"}]
tools = [{type = "function", function = {name = "f"}}]
"""
    )
    public, own = read_shared_prompts(path)
    assert public == SharedPrompt(({"role": "system", "content": "You book flights."},))
    assert (own.tenant, own.cache_salt, len(own.messages)) == ("alice", "x", 2)
    assert own.tools[0]["function"]["name"] == "f"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[prompt", "can't be read"),
        ("", "expected .*prompt"),
        ("a = 1", "expected .*prompt"),
        ("prompt = 1", "expected .*prompt"),
        ("prompt = [1]", "prompt 1 must be a table"),
        ("[[prompt]]", "either system or messages"),
        ("[[prompt]]\nsystem = 1", "system must be a text"),
        ('[[prompt]]\nsystem = "a"\nsalt = "b"', "the key 'salt'"),
        ('[[prompt]]\nsystem = "a"\ncache_salt = "b"', "needs a tenant"),
        ("[[prompt]]\nmessages = []", "at least one"),
        ("[[prompt]]\nmessages = [{content = 1}]", "with a role"),
        ('[[prompt]]\nsystem = "a"\ntools = [1]', "tools must be a list of tables"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prompts.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_shared_prompts(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        read_shared_prompts(tmp_path / "none.toml")
