"""Options that several commands share, and configs built from options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.embedded import EMBEDDED_NAME, cache_folder
from memdecay.classifier.errors import ConfigError
from memdecay.classifier.pretrained import DEFAULT_NAME

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        help=f"The LLM: [bold]{EMBEDDED_NAME}[/bold] (embedded), a local folder or a hub id.",
        rich_help_panel="Model",
    ),
]
DtypeOption = Annotated[
    str,
    typer.Option(
        "--dtype",
        help="float32, bfloat16, float16, or auto: bfloat16 where the device multiplies it "
        "natively, else float32.",
        rich_help_panel="Model",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option("--device", help="cpu, cuda, cuda:N or auto.", rich_help_panel="Model"),
]
ClassifierOption = Annotated[
    Path,
    typer.Option(
        "--classifier",
        help=f"Classifier folder; [bold]{DEFAULT_NAME}[/bold] is the one packaged for "
        f"{EMBEDDED_NAME}.",
    ),
]
DEFAULT_CLASSIFIER = Path(DEFAULT_NAME)


MAX_SEED = 2**32 - 1
"""The largest seed that torch, scikit-learn and Lightning all take."""


def hidden_states_folder() -> Path:
    """Return where extracted hidden states are kept between runs."""
    return cache_folder() / "hidden_states"


@contextmanager
def option_errors() -> Iterator[None]:
    """Turn a config's refusal of a value into an error that a user sees as one line.

    Raises:
        ConfigError: The block raised a `ValueError`.
    """
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{error}; see --help for the option") from error


IndexOption = Annotated[
    int, typer.Option("--index", min=0, help="Which trace of the file, from 0.")
]
IdOption = Annotated[
    str | None, typer.Option("--id", help="The trace with this id, instead of --index.")
]
