"""The text features of a store's tokens: a file beside the shards, made anew when they change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from memdecay.classifier.errors import TraceError
from memdecay.classifier.features import FEATURE_FORMAT
from memdecay.classifier.storage import write_atomically
from memdecay.classifier.text import NUM_TEXT_FEATURES, ConversationText


@dataclass(frozen=True, slots=True, eq=False)
class TextRows:
    """Text features, each row once, and the row of each token.

    A piece of text gives all its tokens one row, so this is a tenth of an array of all tokens.

    Attributes:
        rows: ``(num_rows, NUM_TEXT_FEATURES)``, float16.
        index: ``(num_tokens,)``, int32; the row of each token of the store, in its order.
    """

    rows: NDArray[np.float16]
    index: NDArray[np.int32]

    def tokens(self, start: int, stop: int) -> NDArray[np.float16]:
        """Return the features ``(stop - start, NUM_TEXT_FEATURES)`` of some tokens."""
        return self.rows[self.index[start:stop]]


def text_rows_path(folder: Path) -> Path:
    """Return where a store's text features of this version lie."""
    return folder / f"text-features-{FEATURE_FORMAT}.npz"


def write_text_rows(
    folder: Path, texts: Iterable[tuple[ConversationText, NDArray[np.int32]]]
) -> None:
    """Put the text features of a store's traces beside its shards.

    Args:
        folder: The store's folder.
        texts: For each trace its features and the row ``(n,)`` of each of its tokens.

    Raises:
        StorageError: They could not be written.
    """
    rows, index, num_rows = [np.zeros((0, NUM_TEXT_FEATURES), np.float16)], [], 0
    for text, found in texts:
        rows.append(text.rows.astype(np.float16))
        index.append(found + np.int32(num_rows))
        num_rows += len(text.rows)

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez_compressed(file, rows=np.concatenate(rows), index=np.concatenate(index))

    write_atomically(text_rows_path(folder), write)


def load_text_rows(folder: Path, num_tokens: int) -> TextRows:
    """Read the text features of a store.

    Raises:
        TraceError: They are missing, damaged, or of another store.
    """
    path = text_rows_path(folder)
    try:
        with np.load(path) as arrays:
            found = TextRows(arrays["rows"], arrays["index"])
    except FileNotFoundError as error:
        raise TraceError(f"{path} is missing; extract the hidden states again") from error
    except (OSError, EOFError, ValueError, KeyError, BadZipFile) as error:
        raise TraceError(f"{path} is damaged ({error}); delete it and extract again") from error
    if found.index.shape != (num_tokens,) or found.rows.shape[1:] != (NUM_TEXT_FEATURES,):
        raise TraceError(f"{path} does not fit its store; delete it and extract again")
    return found
