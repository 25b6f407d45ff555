import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import typer

from memdecay.cli.commands import SUMMARIES
from tests.cli.conftest import RunCommand


def named_command(name: str) -> Any:
    """Return a command's function, or the app of a command that has commands of its own."""
    attribute = "import_traces" if name == "import" else name.replace("-", "_")
    return getattr(import_module(f"memdecay.cli.{attribute}"), attribute)


@pytest.mark.parametrize("name", SUMMARIES)
def test_summary_is_the_first_line_of_the_commands_own_help(name: str) -> None:
    named = named_command(name)
    own_help = named.info.help if isinstance(named, typer.Typer) else inspect.getdoc(named)
    assert (own_help or "").split("\n\n")[0].replace("\n", " ") == SUMMARIES[name]


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_command_has_help_with_examples(name: str, command: RunCommand) -> None:
    named = named_command(name)
    lines = [[name]]
    if isinstance(named, typer.Typer):
        lines = [[name, str(own.name)] for own in named.registered_commands]
    for line in lines:
        outcome = command(*line, "--help")
        assert outcome.exit_code == 0
        assert f"memdecay {' '.join(line)}" in outcome.out.split("Examples")[1]


def test_help_lists_every_command_without_importing_torch() -> None:
    code = (
        "import sys\n"
        "from memdecay.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit:\n"
        "    assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in SUMMARIES)


def test_unknown_command_is_a_usage_error(command: RunCommand) -> None:
    outcome = command("remember")
    assert outcome.exit_code == 2
    assert "remember" in outcome.error


def test_version_is_shown(command: RunCommand) -> None:
    from memdecay import __version__

    assert __version__ in command("--version").out
