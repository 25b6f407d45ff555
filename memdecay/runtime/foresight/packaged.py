"""The foresight head that comes with the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.pretrained import pretrained_folder
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.foresight.head_file import FORESIGHT_FILE, load_head


def packaged_head(llm: LanguageModel) -> ForesightHead | None:
    """Return the packaged head for a language model, None if there is none.

    Raises:
        ArtifactError: The installation is damaged.
    """
    folder = pretrained_folder(llm.name)
    return None if folder is None else _loaded(folder / FORESIGHT_FILE)


@cache
def _loaded(path: Path) -> ForesightHead | None:
    return load_head(path) if path.is_file() else None
