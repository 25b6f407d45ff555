"""The built-in page in a real browser, with a key, over a server that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memdecay.serving.api.keys import add_key, load_keys
from tests.chromium import running_chromium
from tests.serving.api.conftest import running_server, wait_until
from tests.serving.fake_engine import FakeEngine, fake_view

pytestmark = [
    pytest.mark.slow,
    # Of sockets between the driver's client and chromedriver, closed by the interpreter.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

HOSTILE = "<img src=x onerror=document.title='hacked'>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running_chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def shown(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield the browser with the page of a server that knows two tenants."""
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    key = add_key(path, "alice")
    engine = FakeEngine()
    engine.held["alice", "agent-7"] = fake_view("agent-7", is_running=True)
    engine.held["alice", HOSTILE] = fake_view(HOSTILE, tier="none", history=())
    engine.held["bob", "secret"] = fake_view("secret")
    with running_server(engine, keys=load_keys(path)) as server:
        browser.get(f"http://me:{key}@127.0.0.1:{server.port}/")
        wait_until(lambda: "Updated" in browser.find_element("id", "news").text, 30)
        yield browser


def read(browser: Any, selector: str, what: str = "textContent") -> list[str]:
    """Read all elements at once: the page replaces them every two seconds."""
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e[arguments[1]])"
    found: list[str] = browser.execute_script(script, selector, what)
    return found


def test_page_shows_the_memory(shown: Any) -> None:
    (text,) = read(shown, "main", "innerText")
    assert "50 %" in text
    assert "of the KV memory promised" in text
    assert "256 B of 1.0 KiB" in text
    assert read(shown, "h1") == ["memdecay fake"]


def test_page_shows_the_tenants_sessions_only(shown: Any) -> None:
    assert read(shown, ".session h3") == ["agent-7", HOSTILE]
    assert "secret" not in shown.page_source


def test_names_of_sessions_are_text(shown: Any) -> None:
    assert shown.title == "memdecay"
    assert read(shown, "img") == []


def test_regions_are_drawn_over_time(shown: Any) -> None:
    script = (
        "return [...document.querySelector('.session svg').querySelectorAll('polygon')]"
        ".map((e) => e.getAttribute('points'))"
    )
    regions = shown.execute_script(script)
    assert len(regions) == 5
    # Of all points of the stack, the left-most stands at the beginning and the right-most at now.
    across = [float(point.split(",")[0]) for region in regions for point in region.split()]
    assert (min(across), max(across)) == (0.0, 600.0)
    cells = read(shown, ".session td")
    assert cells[:10] == ["10", "0", "4", "0", "6", "0", "20", "0", "0", "60"]


def test_page_asks_its_own_server_only_and_complains_of_nothing(shown: Any, tmp_path: Path) -> None:
    events = [json.loads(entry["message"])["message"] for entry in shown.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert any(url.endswith("/v1/sessions") for url in asked)
    assert all("127.0.0.1" in url for url in asked if url.startswith("http"))
    complaints = [
        entry["message"]
        for entry in shown.get_log("browser")
        # The browser looks for an icon by itself.
        if "favicon" not in entry["message"]
    ]
    assert complaints == []
    assert shown.save_screenshot(str(tmp_path / "page.png"))
