"""The built-in page: one HTML text with its style and script, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Page:
    """A page and what it may load.

    Attributes:
        html: The page.
        policy: Its content security policy, which allows its own style and script by their hashes
            and requests to its own server.
    """

    html: str
    policy: str


@cache
def load_page() -> Page:
    """Return the page, put together from its three files."""
    folder = files(__name__)
    style, script, html = (
        folder.joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js", "page.html")
    )
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page(html.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script), policy)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
