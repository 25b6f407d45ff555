from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdecay.data.formats.report import Notes
from memdecay.data.formats.text import clean_text


@pytest.mark.parametrize(
    ("text", "clean", "what", "count"),
    [
        ("a\0b\0", "ab", "NUL character removed", 2),
        ("\x1b[31mred\x1b[0m", "red", "ANSI code removed", 2),
        ("\x1b[1;38;5;200mx\x1b[K", "x", "ANSI code removed", 2),
        ("\x1b]0;title\x07x", "x", "ANSI code removed", 1),
        ("\x1b]8;;http://a\x1b\\x\x1b]8;;\x1b\\", "x", "ANSI code removed", 2),
        ("\x1b[?25lx\x1b(Bx\x1b=", "xx", "ANSI code removed", 3),
        ("\x9b2Kx", "x", "ANSI code removed", 1),
        ("cut \x1b", "cut ", "ANSI code removed", 1),
        ("a\ud800b\udfff", "a\ufffdb\ufffd", "lone surrogate replaced", 2),
        ("\ud83d\ude00", "\N{GRINNING FACE}", "surrogate pair joined", 1),
    ],
)
def test_hostile_characters_go_and_are_counted(
    text: str, clean: str, what: str, count: int
) -> None:
    notes = Notes()

    assert clean_text(text, notes) == clean
    assert notes.repaired[what].count == count


def test_base64_stays_and_is_counted() -> None:
    blob = "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4" * 10
    notes = Notes()

    assert clean_text(f"see {blob} and {'=' * 500}", notes).count(blob) == 1
    assert notes.noticed["base64 blob kept"].count == 1


@pytest.mark.parametrize("text", ["", "plain", "中文 [0m", "tab\tline\n", "é" * 800_000])
def test_other_text_stays_as_it_is(text: str) -> None:
    notes = Notes()

    assert clean_text(text, notes) == text
    assert not notes.repaired


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_clean_text_can_be_written_as_utf8_and_stays_clean(text: str) -> None:
    clean = clean_text(text, Notes())

    assert clean.encode().decode() == clean
    assert "\0" not in clean
    assert "\x1b" not in clean
    assert clean_text(clean, notes := Notes()) == clean
    assert not notes.repaired
