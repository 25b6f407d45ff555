"""The page in a real browser: no request, no message on the console, the key texts to be seen."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memdecay.training.calibration import write_report
from memdecay.training.calibration.baseline import read_baseline
from tests.chromium import running_chromium
from tests.training.calibration.samples import hostile_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
pytestmark = [
    pytest.mark.slow,
    # Of sockets between the driver's client and chromedriver, closed by the interpreter.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with running_chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    earlier, folder = tmp_path_factory.mktemp("earlier"), tmp_path_factory.mktemp("report")
    write_report(hostile_report(), earlier)
    write_report(hostile_report(baseline=read_baseline(earlier), strength=0.3), folder)
    return folder / "index.html"


def requests(browser: webdriver.Chrome) -> list[str]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
    return [event["params"]["request"]["url"] for event in sent]


def colour_scheme(browser: webdriver.Chrome, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def test_page_opens_without_requests_or_messages(browser: webdriver.Chrome, page: Path) -> None:
    browser.get_log("performance")
    browser.get(page.as_uri())
    asked = [url for url in requests(browser) if not url.startswith("data:")]
    assert asked == [page.as_uri()]
    assert browser.get_log("browser") == []


def test_key_texts_can_be_seen(browser: webdriver.Chrome, page: Path) -> None:
    browser.get(page.as_uri())
    assert browser.title.startswith("Drifted")
    heading = browser.find_element("tag name", "h1")
    assert heading.is_displayed()
    text = browser.find_element("tag name", "body").text
    for expected in (
        "macro-F1",
        "What changed",
        "Region by region",
        "What is taken for what",
        "Before temperature scaling",
        "When to abstain",
        "Whole spans",
        "By source",
        "Where it is most wrong",
        "<script>alert('page')</script>",
        "trained on none of these traces",
    ):
        assert expected in text
    charts = browser.find_elements("css selector", "svg.chart")
    assert len(charts) == 4
    assert all(chart.size["width"] > 200 and chart.size["height"] > 100 for chart in charts)


def test_page_follows_the_colour_scheme(browser: webdriver.Chrome, page: Path) -> None:
    browser.get(page.as_uri())
    colours = []
    for scheme in ("light", "dark"):
        colour_scheme(browser, scheme)
        body = browser.find_element("tag name", "body").value_of_css_property("background-color")
        label = browser.find_element("css selector", "svg.chart text").value_of_css_property("fill")
        colours.append((body, label))
    assert colours[0][0] != colours[1][0]
    assert colours[0][1] != colours[1][1]


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_page_fits_the_width(browser: webdriver.Chrome, page: Path, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page.as_uri())
    root = browser.find_element("tag name", "html")
    assert int(root.get_property("scrollWidth")) <= width
