"""API keys: a file of salted hashes, each of which stands for a tenant."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.storage import write_text_atomically

ANONYMOUS_TENANT = "local"
"""The tenant of a server without keys."""

_KEY = re.compile(r"md-([0-9a-f]{12})-[A-Za-z0-9_-]{43}")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SECRET_BYTES = 32
_FIELDS = ("tenant", "id", "salt", "sha256")


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as the file holds it.

    One round of SHA-256 is enough: a key has 256 random bits, which no guessing reaches.

    Attributes:
        tenant: Whose key it is.
        id: The part of the key that may be shown, 12 hex digits.
        salt: Hex digits that are hashed before the key.
        sha256: The hash, 64 hex digits.
    """

    tenant: str
    id: str
    salt: str
    sha256: str

    def matches(self, key: str) -> bool:
        """Return whether this is the key, in a time that does not tell how close it came."""
        return hmac.compare_digest(_digest(self.salt, key), self.sha256)


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The keys that a server knows.

    Attributes:
        by_id: The keys by their id.
    """

    by_id: Mapping[str, StoredKey] = field(default_factory=dict)

    def tenant_of(self, key: str) -> str | None:
        """Return whose key this is; None if it is nobody's."""
        match = _KEY.fullmatch(key)
        stored = self.by_id.get(match[1]) if match else None
        return stored.tenant if stored is not None and stored.matches(key) else None


def load_keys(path: Path) -> ApiKeys:
    """Read a file of keys.

    Raises:
        ConfigError: The file is missing, is not TOML, or an entry is not as `add_key` writes it.
    """
    stored = _read(path)
    if not stored:
        raise ConfigError(f"{path} holds no API key; make one with --new-key TENANT")
    return ApiKeys({key.id: key for key in stored})


def add_key(path: Path, tenant: str) -> str:
    """Make a key for a tenant and add its hash to the file, which is made if it is missing.

    Returns:
        The key. It stands nowhere else and can't be shown again.

    Raises:
        ConfigError: The tenant's name has other characters than it may, or the file is damaged.
        StorageError: The file can't be written.
    """
    if not _TENANT.fullmatch(tenant):
        raise ConfigError(
            f"a tenant's name has 1 to 64 letters, digits, dots, dashes or underscores, "
            f"got {tenant!r}"
        )
    stored = _read(path) if path.exists() else []
    key_id = secrets.token_hex(6)
    key = f"md-{key_id}-{secrets.token_urlsafe(_SECRET_BYTES)}"
    salt = secrets.token_hex(16)
    stored.append(StoredKey(tenant, key_id, salt, _digest(salt, key)))
    write_text_atomically(path, "".join(map(_entry, stored)))
    return key


def _digest(salt: str, key: str) -> str:
    return hashlib.sha256(f"{salt}:{key}".encode()).hexdigest()


def _entry(key: StoredKey) -> str:
    # The strings are plain ASCII without quotes, for which JSON and TOML agree.
    lines = [f"{name} = {json.dumps(getattr(key, name))}" for name in _FIELDS]
    return "\n".join(("[[keys]]", *lines, "", ""))


def _read(path: Path) -> list[StoredKey]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} can't be read ({error.strerror}); make a file of keys with --new-key TENANT"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML ({error}); mend that line") from error
    entries = data.get("keys", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: expected [[keys]] entries, got {type(entries).__name__}")
    return [_stored_key(path, index, entry) for index, entry in enumerate(entries)]


def _stored_key(path: Path, index: int, entry: Any) -> StoredKey:
    found = [entry.get(name) if isinstance(entry, dict) else None for name in _FIELDS]
    values = [value for value in found if isinstance(value, str) and value]
    if len(values) < len(_FIELDS):
        raise ConfigError(
            f"{path}: entry {index} of [[keys]] needs the texts {', '.join(_FIELDS)}; make it "
            "anew with --new-key TENANT"
        )
    return StoredKey(*values)
