"""The foresight head that comes with the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from memdecay.classifier.pretrained import pretrained_folder
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.foresight.head_file import FORESIGHT_FILE, load_head


def packaged_head(model: str) -> ForesightHead | None:
    """Return the packaged head for a language model, None if there is none.

    Args:
        model: The name that it was or will be asked for by.

    Raises:
        ArtifactError: The installation is damaged.
    """
    folder = pretrained_folder(model)
    return None if folder is None else _loaded(folder / FORESIGHT_FILE)


@cache
def _loaded(path: Path) -> ForesightHead | None:
    return load_head(path) if path.is_file() else None
