"""The report's files: what they say, and that nothing in a trace breaks out of them."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import REGION_LABELS, Region
from memdecay.data.digests import trace_digest
from memdecay.data.trace import Message, Span, Trace
from memdecay.training.calibration import CalibrationConfig, Section, Table, write_report
from memdecay.training.calibration.baseline import read_baseline
from memdecay.training.calibration.page.drawing import ACCENT, Chart, to_svg
from memdecay.training.calibration.page.html import to_html
from memdecay.training.calibration.report import Part
from memdecay.training.calibration.verdict.verdict import Status
from memdecay.training.calibration.visible import in_markdown, shortened, visible
from memdecay.training.calibration.worst import with_texts, wrong_spans
from memdecay.training.evaluation import Evaluation
from tests.tiny import tiny_tokenizer
from tests.training.calibration.samples import (
    QUICK,
    hostile_report,
    hostile_traces,
    tags_for,
)

HIDDEN = "".join(map(chr, [0, 7, 27, 127, 0x9B, 0x200B, 0x202E, 0x2066, 0x2028, 0xFEFF, 0xD800]))


class Tags(HTMLParser):
    """Collects the elements of a page and the attributes by which it could load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        for name, value in attrs:
            if name in {"src", "href", "srcset", "action", "data"}:
                self.links.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(hostile_report(), folder)
    return folder


def data_of(folder: Path) -> dict:  # type: ignore[type-arg]
    return json.loads((folder / "report.json").read_text())


def test_json_has_the_keys_of_evaluate_and_their_values(written: Path) -> None:
    data = data_of(written)
    report = hostile_report()
    assert isinstance(report.evaluation, Evaluation)
    for key, value in report.evaluation.to_dict().items():
        assert data[key] == json.loads(json.dumps(value))
    assert set(data["intervals"]["per_region"]) == set(REGION_LABELS)
    assert len(data["per_trace"]) == data["traces"] == 12


def test_page_runs_nothing_and_loads_nothing(written: Path) -> None:
    tags = Tags()
    tags.feed((written / "index.html").read_text(encoding="utf-8"))
    assert not {"script", "img", "iframe", "object", "embed", "form"} & tags.names
    assert tags.handlers == []
    assert all(link.startswith(("#", "data:")) for link in tags.links)


@pytest.mark.parametrize("name", ["index.html", "report.md", "report.json"])
def test_files_hold_no_hidden_characters(written: Path, name: str) -> None:
    text = (written / name).read_text(encoding="utf-8")
    assert not set(HIDDEN) & set(text)


def test_hostile_text_is_shown_as_text(written: Path) -> None:
    page = (written / "index.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page
    assert "<b>stant" not in page
    assert "<i>source" not in page


def test_markdown_escapes_names_of_sources(written: Path) -> None:
    text = (written / "report.md").read_text(encoding="utf-8")
    assert "<i>" not in text
    assert "&lt;i&gt;source" in text


def test_texts_can_be_kept_out() -> None:
    report = hostile_report(config=CalibrationConfig(num_resamples=5, show_text=False))
    assert report.worst
    assert all(span.text is None for span in report.worst)
    assert "alert" not in to_html(report)


def test_worst_spans_show_the_labelled_text() -> None:
    words = ("alpha", "beta", "gamma", "delta")
    traces = [
        Trace(
            f"t{index}",
            tuple(Message("user", f"{index} {word} " * 9) for word in words),
            spans=tuple(Span(turn, 0, 40, Region(turn)) for turn in range(len(words))),
        )
        for index in range(6)
    ]
    tokens = tags_for(traces, strength=-3.0)
    spans = wrong_spans(tokens, 12)
    shown = with_texts(spans, traces, tiny_tokenizer(), show_text=True)
    assert [item.span.trace for item in shown].count(0) == 2
    for item in shown:
        assert item.text is not None
        trace = traces[item.span.trace]
        assert item.text.text in trace.messages[item.span.message].content
        assert item.span.label == trace.spans[item.span.message].region
        assert item.span.tag != item.span.label
    losses = [item.span.loss for item in shown]
    assert losses == sorted(losses, reverse=True)


def test_unseen_traces_are_measured_apart() -> None:
    traces = hostile_traces()
    report = hostile_report(trained_on=[trace_digest(trace) for trace in traces[:8]])
    assert report.part is Part.UNSEEN
    assert report.num_traces == 4
    assert report.evaluation.num_traces == 12
    assert report.evaluation.num_trained_on == 8
    assert report.parts[Part.SEEN].num_trained_on == 8
    tokens = tags_for(traces)
    assert report.num_tokens == int((tokens.trace >= 8).sum())
    page = to_html(report)
    assert "trained on 8 of the 12 traces" in page
    assert "Seen in training and not" in page


def test_figures_on_trained_traces_alone_come_with_a_warning(tmp_path: Path) -> None:
    report = hostile_report(trained_on=[trace_digest(trace) for trace in hostile_traces()])
    assert report.verdict.status is Status.UNPROVEN
    write_report(report, tmp_path)
    assert data_of(tmp_path)["measured"]["is_trained_on"] is True
    for name in ("index.html", "report.md"):
        assert "every figure here flatters it" in (tmp_path / name).read_text(encoding="utf-8")


def test_report_can_be_compared_with_itself(written: Path, tmp_path: Path) -> None:
    report = hostile_report(baseline=read_baseline(written))
    assert report.drift is not None
    assert report.drift.drifted == ()
    assert report.baseline is not None
    assert report.baseline.is_same_classifier
    write_report(report, tmp_path)
    data = data_of(tmp_path)
    assert data["drift"]["is_drift"] is False
    for change in data["drift"]["changes"]:
        assert change["difference"]["value"] == pytest.approx(0, abs=1e-6)
    assert "What changed" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_worse_classifier_is_named_on_every_file(written: Path, tmp_path: Path) -> None:
    report = hostile_report(baseline=read_baseline(written / "report.json"), strength=0.3)
    assert report.verdict.status is Status.DRIFTED
    write_report(report, tmp_path)
    assert data_of(tmp_path)["verdict"]["status"] == "drifted"
    for name in ("index.html", "report.md"):
        assert "Drifted: " in (tmp_path / name).read_text(encoding="utf-8")


def test_sections_are_shown_and_kept(tmp_path: Path) -> None:
    with Chart() as figure:
        figure.subplots().plot([0, 1], [1, 0], color=ACCENT)
        chart = to_svg(figure, "curve", 'a "curve" & more')
    section = Section(
        key="decay",
        title="How regions <fade>",
        paragraphs=("One & two.",),
        charts=(chart,),
        table=Table(("region", "half-life"), (("key_decision", "4096"),)),
        data={"half_life": 4096},
    )
    write_report(hostile_report(), tmp_path, [section])
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "How regions &lt;fade&gt;" in page
    assert "One &amp; two." in page
    assert page.count('id="curve-axes_1"') == 1
    assert data_of(tmp_path)["extensions"] == {"decay": {"half_life": 4096}}
    assert "half-life" in (tmp_path / "report.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="keys of sections must differ"):
        write_report(hostile_report(), tmp_path, [section, section])


def test_sections_check_their_shape() -> None:
    with pytest.raises(ValueError, match="key must be a word"):
        Section(key="no word", title="")
    with pytest.raises(ValueError, match="a row must have 2 cells"):
        Table(("a", "b"), (("1",),))


def test_page_can_be_left_out(tmp_path: Path) -> None:
    files = write_report(hostile_report(), tmp_path, with_page=False)
    assert [file.name for file in files] == ["report.json", "report.md"]
    assert not (tmp_path / "index.html").exists()


def test_ids_on_the_page_are_unique(written: Path) -> None:
    ids = []

    class Ids(HTMLParser):
        def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
            ids.extend(value for name, value in attrs if name == "id")

    Ids().feed((written / "index.html").read_text(encoding="utf-8"))
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "no calibration report"),
        ('{"macro_f1": 0.5}', "no calibration report"),
        ('{"per_trace": [], "format_version": 99}', "format_version 99"),
        ('{"per_trace": [], "format_version": 1, "regions": ["a"]}', "lists the regions"),
    ],
)
def test_baseline_that_is_none_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        read_baseline(tmp_path)


def test_missing_baseline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_baseline(tmp_path / "none")


@pytest.mark.parametrize(
    ("key", "value"), [("confusion", [1, 2]), ("nll", None), ("digest", ...), ("slots", [0.5] * 47)]
)
def test_damaged_baseline_is_refused(
    written: Path, tmp_path: Path, key: str, value: object
) -> None:
    data = data_of(written)
    for row in data["per_trace"]:
        if value is ...:
            del row[key]
        else:
            row[key] = value
    (tmp_path / "report.json").write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="is damaged"):
        read_baseline(tmp_path)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"target_accuracy": 0.0}, "target"),
        ({"num_resamples": 0}, "num_res"),
        ({"num_worst": -1}, "num_w"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        CalibrationConfig(**settings)  # type: ignore[arg-type]
    assert QUICK.num_resamples


@given(st.text(st.characters(codec=None), max_size=60))
def test_visible_text_holds_nothing_hidden(text: str) -> None:
    shown = visible(text)
    assert not set(HIDDEN) & set(shown)
    shown.encode("utf-8")
    assert visible(shown) == shown
    assert not {"\n", "<"} & set(in_markdown(text))


@given(st.text(max_size=300), st.integers(2, 80))
def test_shortened_text_keeps_both_ends(text: str, limit: int) -> None:
    short = shortened(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        assert len(short) < limit + 40
        assert short.startswith(text[: limit * 2 // 3])
        assert short.endswith(text[-1])


def test_shortening_refuses_a_senseless_length() -> None:
    with pytest.raises(ValueError, match="max_characters"):
        shortened("text", 1)
