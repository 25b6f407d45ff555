import io

import pytest
from rich.console import Console

from memdecay.cli import console
from memdecay.cli.console import progress_bars


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return what a terminal of 120 columns is sent."""
    sent = io.StringIO()
    monkeypatch.setattr(
        console, "error_console", lambda: Console(file=sent, force_terminal=True, width=120)
    )
    return sent


def test_a_bar_appears_with_its_first_report(terminal: io.StringIO) -> None:
    with progress_bars() as add_bar:
        add_bar("Reading", "tokens")
        training = add_bar("Training", "steps")
        training(3, 8)
    shown = terminal.getvalue()
    assert "Training" in shown
    assert "3/8" in shown
    assert "steps" in shown
    assert "left" in shown
    assert "Reading" not in shown
