"""The classifiers that come with the package, a folder for each language model."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from memdecay.classifier.artifact import CARD_FILE
from memdecay.classifier.embedded import EMBEDDED_NAME
from memdecay.classifier.errors import ArtifactError

DEFAULT_NAME = "default"
"""What stands for the packaged classifier where a classifier's folder is asked for."""


def pretrained_folder(llm_name: str) -> Path | None:
    """Return the folder of the packaged classifier for a language model; None if there is none.

    Args:
        llm_name: The model as it was asked for.
    """
    if llm_name != EMBEDDED_NAME:
        return None
    folder = Path(str(files(__name__).joinpath(EMBEDDED_NAME)))
    return folder if (folder / CARD_FILE).is_file() else None


def classifier_folder(choice: Path, llm_name: str) -> Path:
    """Return the folder that a choice of classifier stands for.

    Args:
        choice: A folder, or `DEFAULT_NAME` for the packaged classifier.
        llm_name: The model as it was asked for.

    Raises:
        ArtifactError: The packaged classifier was asked for, and there is none for this model.
    """
    if choice != Path(DEFAULT_NAME):
        return choice
    folder = pretrained_folder(llm_name)
    if folder is None:
        raise ArtifactError(
            f"memdecay brings no classifier for {llm_name}, only for {EMBEDDED_NAME!r}; train one "
            f"with `memdecay train --model {llm_name}` and give its folder with --classifier"
        )
    return folder
