"""Features of one piece of text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdecay.classifier.text.lines import LINE_FEATURE_NAMES, line_features


def features_of(text: str) -> dict[str, float]:
    return dict(zip(LINE_FEATURE_NAMES, line_features(text), strict=True))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('  "order_id": 17,\n', "json"),
        ("```bash\n", "fence"),
        ("<returncode>0</returncode>", "tag"),
        ("## Policy", "heading"),
        ("- never guess", "bullet"),
        ("  12  def run():", "line_number"),
        ("$ make test", "prompt"),
        ("drwxr-xr-x 2 me me 40 docs", "path"),
        ("| name | price |", "table"),
        ("@@ -1,3 +1,4 @@", "diff"),
        ('  File "run.py", line 3, in main', "stack_frame"),
        ("status: shipped", "key_value"),
        ("def add(left, right):", "code"),
        ("Thought 2: I look again", "label_thought"),
        ("Action: search[tea]", "label_action"),
        ("Observation: no results", "label_result"),
        ("Final answer: 42", "label_final"),
        ("Your task is to mend it", "label_task"),
        ("let me know if that helps", "words_offer"),
        ("ValueError: no such key", "words_error"),
        ("(3 more lines)", "omission"),
        ("see https://example.org", "address"),
    ],
)
def test_kinds_of_lines_are_told_apart(text: str, name: str) -> None:
    assert features_of(text)[name] == 1.0
    assert features_of("a quiet morning")[name] == 0.0


def test_shares_count_characters() -> None:
    features = features_of("ab12 ()?")
    assert features["share_digits"] == pytest.approx(2 / 8)
    assert features["share_letters"] == pytest.approx(2 / 8)
    assert features["share_signs"] == pytest.approx(3 / 8)
    assert features["ends_with_question"] == 1.0


@given(st.text(max_size=600))
def test_any_text_has_bounded_features(text: str) -> None:
    features = line_features(text)
    assert len(features) == len(LINE_FEATURE_NAMES)
    assert all(0 <= feature <= 2.1 for feature in features)
