from collections.abc import Mapping
from pathlib import Path

import pytest

from memdecay.classifier.errors import ConfigError
from memdecay.cli.commands import SUMMARIES
from memdecay.cli.config_file import read_config
from memdecay.cli.option_names import OptionShape, known_options
from tests.cli.conftest import RunCommand

OPTIONS = {
    "model": OptionShape(),
    "traces": OptionShape(takes_several=True),
    "max_epochs": OptionShape(),
    "html": OptionShape(is_flag=True),
}
PARTS = {
    "bench": {"bench quality": frozenset({"model", "out"}), "bench speed": frozenset({"prompt"})},
}


def known(command: str) -> Mapping[str, frozenset[str]]:
    """Stand in for the commands, of which some take seconds to import."""
    return PARTS.get(command, {command: frozenset({"budget", "model"})})


def written(folder: Path, text: str) -> Path:
    path = folder / "memdecay.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_keys_are_option_names_with_dashes_or_underscores(tmp_path: Path) -> None:
    path = written(tmp_path, 'model = "a"\nmax-epochs = 3\n')
    assert read_config(path, "train", OPTIONS, known) == {"model": "a", "max_epochs": 3}


def test_table_of_the_command_wins_over_the_top(tmp_path: Path) -> None:
    path = written(tmp_path, 'model = "a"\n[train]\nmodel = "b"\n[run]\nmodel = "c"\n')
    assert read_config(path, "train", OPTIONS, known) == {"model": "b"}


def test_lone_value_of_a_repeatable_option_becomes_a_list(tmp_path: Path) -> None:
    path = written(tmp_path, '[train]\ntraces = "a.jsonl"\n')
    assert read_config(path, "train", OPTIONS, known) == {"traces": ["a.jsonl"]}


def test_top_level_key_of_another_command_is_left_to_it(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, "budget = 9\n"), "train", OPTIONS, known) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[train]\nbudget = 9\n",
            "has the key 'budget', but `memdecay train` has no such option; see `memdecay train",
        ),
        ("[train]\nmax_epoch = 9\n", "'max_epoch', but .* did you mean 'max-epochs'"),
        ("modle = 'a'\n", "no command has an option for the key 'modle'; did you mean 'model'"),
        ("qqq = 'a'\n", "option for the key 'qqq'; see `memdecay --help`"),
        ("model = \n", "is not TOML"),
        ("train = 4\n", "'train' must be a table"),
        ("[[train]]\nmodel = 'a'\n", "'train' must be a table"),
        ("[trian]\nmodel = 'a'\n", r"no command for the table \[trian\]; did you mean 'train'"),
        ("[qqq]\nmodel = 'a'\n", r"no command for the table \[qqq\]; see `memdecay --help`"),
        ("[train.model]\na = 1\n", r"\[train\]: model is a table"),
        ("traces = [{a = 1}]\n", "the top: traces is a table"),
        ("[train]\nmodel = ['a', 'b']\n", "model is a list, but the option takes one value"),
        ("max-epochs = true\n", "max-epochs is true or false"),
        ("traces = [true]\n", "traces is true or false"),
    ],
)
def test_bad_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_config(written(tmp_path, text), "train", OPTIONS, known)


def test_flag_may_be_true_or_false(tmp_path: Path) -> None:
    path = written(tmp_path, "html = false\n")
    assert read_config(path, "train", OPTIONS, known) == {"html": False}


def test_part_of_a_command_has_a_table_of_its_own_that_wins(tmp_path: Path) -> None:
    text = 'model = "a"\n[bench]\nmodel = "b"\nprompt = 3\n[bench.quality]\nmodel = "c"\n'
    path = written(tmp_path, text)
    assert read_config(path, "bench quality", OPTIONS, known) == {"model": "c"}
    text = text.replace('model = "c"', "")
    assert read_config(written(tmp_path, text), "bench quality", OPTIONS, known) == {"model": "b"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[bench.qualty]\n", r"no command for the table \[bench.qualty\]; did you mean 'quality'"),
        ("[bench]\nmodl = 'a'\n", r"\[bench\] has the key 'modl', .* did you mean 'model'"),
        (
            "[bench.quality]\nprompt = 3\n",
            r"\[bench.quality\] has the key 'prompt', but `memdecay bench quality` has no such",
        ),
    ],
)
def test_bad_table_of_a_part_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_config(written(tmp_path, text), "bench quality", OPTIONS, known)


def test_every_command_tells_its_options() -> None:
    found = {name: names for command in SUMMARIES for name, names in known_options(command).items()}
    assert {"bench quality", "bench speed", "train", "import"} <= set(found)
    assert {"traces", "max_epochs", "out"} <= found["train"]
    assert "config" not in found["train"]
    assert all(found.values())


def test_nested_table_reaches_its_command(tmp_path: Path, command: RunCommand) -> None:
    path = written(
        tmp_path, f'[bench.quality]\ntraces = "{tmp_path}/none.jsonl"\nout = "{tmp_path}/out"\n'
    )
    outcome = command("bench", "quality", "--config", path)
    assert outcome.exit_code == 2
    assert "none.jsonl" in outcome.error


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_config(tmp_path / "none.toml", "train", OPTIONS, known)


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
