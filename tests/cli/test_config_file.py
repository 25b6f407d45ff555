from pathlib import Path

import pytest

from memdecay.classifier.errors import ConfigError
from memdecay.cli.config_file import read_config
from tests.cli.conftest import RunCommand

OPTIONS = {"model": False, "traces": True, "max_epochs": False}


def written(folder: Path, text: str) -> Path:
    path = folder / "memdecay.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_keys_are_option_names_with_dashes_or_underscores(tmp_path: Path) -> None:
    path = written(tmp_path, 'model = "a"\nmax-epochs = 3\n')
    assert read_config(path, "train", OPTIONS) == {"model": "a", "max_epochs": 3}


def test_table_of_the_command_wins_over_the_top(tmp_path: Path) -> None:
    path = written(tmp_path, 'model = "a"\n[train]\nmodel = "b"\n[run]\nmodel = "c"\n')
    assert read_config(path, "train", OPTIONS) == {"model": "b"}


def test_lone_value_of_a_repeatable_option_becomes_a_list(tmp_path: Path) -> None:
    path = written(tmp_path, '[train]\ntraces = "a.jsonl"\n')
    assert read_config(path, "train", OPTIONS) == {"traces": ["a.jsonl"]}


def test_top_level_key_of_another_command_is_left_to_it(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, "budget = 9\n"), "train", OPTIONS) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\nbudget = 9\n", "has the key 'budget', but `memdecay train` has no such option"),
        ("model = \n", "is not TOML"),
        ("train = 4\n", "'train' must be a table"),
        ("[trian]\nmodel = 'a'\n", r"no command for the table \[trian\]"),
    ],
)
def test_bad_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_config(written(tmp_path, text), "train", OPTIONS)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_config(tmp_path / "none.toml", "train", OPTIONS)


def test_command_takes_required_options_from_the_file(tmp_path: Path, command: RunCommand) -> None:
    path = written(tmp_path, f'[train]\ntraces = "{tmp_path}/none.jsonl"\nout = "{tmp_path}/out"\n')
    outcome = command("train", "--config", path)
    assert outcome.exit_code == 2
    assert "none.jsonl" in outcome.error


def test_command_line_wins_over_the_file(tmp_path: Path, command: RunCommand) -> None:
    path = written(tmp_path, f'[train]\ntraces = "{tmp_path}/none.jsonl"\nout = "{tmp_path}/out"\n')
    outcome = command("train", "--config", path, "--traces", tmp_path / "other.jsonl")
    assert "other.jsonl" in outcome.error
    assert "none.jsonl" not in outcome.error


def test_value_of_the_wrong_kind_is_a_usage_error(tmp_path: Path, command: RunCommand) -> None:
    path = written(tmp_path, '[train]\ntraces = "a"\nout = "b"\nmax-epochs = "many"\n')
    outcome = command("train", "--config", path)
    assert outcome.exit_code == 2
    assert "--max-epochs" in outcome.error


def test_keys_are_the_names_that_help_shows(
    labelled: Path, tiny_model: Path, tmp_path: Path, command: RunCommand
) -> None:
    figures = tmp_path / "figures.json"
    path = written(
        tmp_path,
        f'[run]\ntrace = "{labelled}"\nmodel = "{tiny_model}"\nbudget = 300\nmax-new-tokens = 0\n'
        f'json = "{figures}"\n',
    )
    outcome = command("run", "--config", path)
    assert outcome.exit_code == 0, outcome.err
    assert figures.is_file()


def test_argument_may_be_one_value_or_several(
    labelled: Path, tmp_path: Path, command: RunCommand
) -> None:
    path = written(tmp_path, f'[validate]\nfiles = "{labelled}"\n')
    outcome = command("validate", "--config", path)
    assert f"{labelled}: 12 traces" in outcome.out
