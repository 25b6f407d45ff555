"""The classifier folder: written file by file, checked as a whole when it is loaded."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from memdecay.classifier.card import ClassifierCard, FileDigest
from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.export import (
    PARITY_TOLERANCE,
    ParityReport,
    TaggingInputs,
    check_parity,
    export_onnx,
    onnx_session,
)
from memdecay.classifier.graph import TaggingGraph
from memdecay.classifier.model_card import model_card
from memdecay.classifier.storage import file_sha256, storage_errors, write_text_atomically

ONNX_FILE = "classifier.onnx"
CHECKPOINT_FILE = "checkpoint.safetensors"
CARD_FILE = "card.json"
MODEL_CARD_FILE = "README.md"
_STAGING_PREFIX = ".export-"
_STALE_S = 3600.0
_VERSIONED_PACKAGES = ("torch", "transformers", "lightning", "onnx", "scikit-learn", "numpy")


@dataclass(frozen=True, slots=True)
class ClassifierArtifact:
    """A classifier folder whose files have been checked.

    Attributes:
        folder: Where it lies.
        card: Its card.
    """

    folder: Path
    card: ClassifierCard

    def open_session(
        self, providers: Sequence[str] = ("CPUExecutionProvider",)
    ) -> onnxruntime.InferenceSession:
        """Open the exported graph with ONNX Runtime.

        Raises:
            ArtifactError: ONNX Runtime cannot open it, or it has other inputs than the card says.
        """
        session = onnx_session(self.folder / ONNX_FILE, providers)
        layout = self.card.feature_layout
        expected = (layout.hidden_size, layout.num_position_features)
        found = tuple(put_in.shape[-1] for put_in in session.get_inputs()[:2])
        if found != expected:
            raise ArtifactError(
                f"{self.folder / ONNX_FILE} reads {found[0]} hidden and {found[1]} position "
                f"features a token, but its {CARD_FILE} says {expected[0]} and {expected[1]}; "
                "export the classifier again with `memdecay train`"
            )
        return session

    def load_graph(self) -> TaggingGraph:
        """Rebuild the graph in torch from the checkpoint, in eval mode.

        Raises:
            ArtifactError: The checkpoint does not belong to the card.
        """
        path = self.folder / CHECKPOINT_FILE
        try:
            network = self.card.network.build()
            network.load_state_dict(load_file(path))
        except (MemoryError, OverflowError, RuntimeError, TypeError, SafetensorError) as error:
            raise ArtifactError(
                f"{path} does not hold the network of its card ({str(error).splitlines()[0]}); "
                "export the classifier again with `memdecay train`"
            ) from error
        card = self.card
        return TaggingGraph(network, card.region_table, card.propagation, card.temperature).eval()

    def check_llm(self, fingerprint: str, hidden_size: int, num_layers: int, name: str) -> None:
        """Check that the classifier was trained on this LLM.

        Args:
            fingerprint: The LLM's fingerprint.
            hidden_size: Width of its hidden states.
            num_layers: Its decoder layers.
            name: What the user called it, for the message.

        Raises:
            ArtifactError: It was trained on another one, or reads a layer that the LLM lacks.
        """
        expected = self.card.feature_layout.hidden_size
        if hidden_size != expected:
            raise ArtifactError(
                f"{self.folder} was trained on {self.card.llm_name} with hidden size {expected}, "
                f"but {name} has hidden size {hidden_size}; give the model it was trained on or "
                f"train a classifier with `memdecay train --model {name}`"
            )
        if fingerprint != self.card.llm_fingerprint:
            raise ArtifactError(
                f"{self.folder} was trained on {self.card.llm_name} (fingerprint "
                f"{self.card.llm_fingerprint}), but {name} is another model (fingerprint "
                f"{fingerprint}); give the model it was trained on or train a classifier with "
                f"`memdecay train --model {name}`"
            )
        if self.card.feature_layout.layer >= num_layers:
            raise ArtifactError(
                f"{self.folder} reads layer {self.card.feature_layout.layer} of the model, but "
                f"{name} has only the layers 0 to {num_layers - 1}: its {CARD_FILE} was edited; "
                "export the classifier again with `memdecay train`"
            )


def save_artifact(
    folder: Path, graph: TaggingGraph, card: ClassifierCard, samples: Sequence[TaggingInputs]
) -> ParityReport:
    """Export a classifier into a folder and prove that the export agrees with torch.

    All files are made in a hidden folder first and put in place when they are complete, the card
    last: whatever goes wrong before, an older classifier in the folder stays as it is.

    Args:
        folder: Where to write; made where it is missing, files of the same names are replaced.
        graph: The trained graph.
        card: Its card; versions and digests are filled in here.
        samples: Inputs on which torch and ONNX Runtime are compared, real ones among them.

    Returns:
        The largest differences found.

    Raises:
        ArtifactError: Torch and ONNX Runtime disagree.
        StorageError: A file could not be written.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        with tempfile.TemporaryDirectory(prefix=_STAGING_PREFIX, dir=folder) as staging:
            parity = _write_files(Path(staging), graph, card, samples)
            _put_in_place(Path(staging), folder)
    return parity


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed exports left; one that may still be under way stays."""
    for leftover in folder.glob(f"{_STAGING_PREFIX}*"):
        with suppress(FileNotFoundError):  # Another export may have removed it meanwhile.
            if time.time() - leftover.stat().st_mtime > _STALE_S:
                shutil.rmtree(leftover, ignore_errors=True)


def _write_files(
    folder: Path, graph: TaggingGraph, card: ClassifierCard, samples: Sequence[TaggingInputs]
) -> ParityReport:
    export_onnx(graph, folder / ONNX_FILE)
    parity = check_parity(graph, folder / ONNX_FILE, samples)
    if not parity.is_equal:
        raise ArtifactError(
            f"the exported {ONNX_FILE} differs from torch by {parity.region_probs:.2g} in "
            f"region_probs and {parity.importance:.2g} in importance, expected at most "
            f"{PARITY_TOLERANCE:g}; update onnx and onnxruntime and export again"
        )
    state = {name: value.contiguous() for name, value in graph.network.state_dict().items()}
    # Not save_file: its errors are no OSErrors.
    (folder / CHECKPOINT_FILE).write_bytes(save(state))
    digests = {name: _digest(folder / name) for name in (ONNX_FILE, CHECKPOINT_FILE)}
    card = dataclasses.replace(card, versions=library_versions(), files=digests)
    (folder / MODEL_CARD_FILE).write_text(model_card(card), encoding="utf-8")
    (folder / CARD_FILE).write_text(card.to_json(), encoding="utf-8")
    return parity


def _put_in_place(staging: Path, folder: Path) -> None:
    names = (ONNX_FILE, CHECKPOINT_FILE, MODEL_CARD_FILE, CARD_FILE)
    for name in names:
        with (staging / name).open("rb") as written:
            os.fsync(written.fileno())
    # Without its card a folder is no classifier, so a crash in between leaves no mixture.
    (folder / CARD_FILE).unlink(missing_ok=True)
    for name in names:
        (staging / name).replace(folder / name)


def load_artifact(folder: Path) -> ClassifierArtifact:
    """Open a classifier folder and check every file in it.

    Raises:
        ArtifactError: The folder or a file is missing, damaged, or of a newer format.
    """
    card_path = folder / CARD_FILE
    if not folder.is_dir():
        raise ArtifactError(
            f"{folder} is not a folder; give the classifier folder that `memdecay train` wrote"
        )
    try:
        text = card_path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{folder} has no {CARD_FILE}, so it is no finished classifier; "
            "run `memdecay train` to its end or give another folder"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{card_path} cannot be read ({error}); give another folder") from error
    card = ClassifierCard.from_json(text, card_path)
    for name in (ONNX_FILE, CHECKPOINT_FILE):
        _check_file(folder / name, card.files.get(name))
    return ClassifierArtifact(folder, card)


def record_evaluation(
    artifact: ClassifierArtifact, name: str, figures: Mapping[str, Any]
) -> ClassifierArtifact:
    """Write figures measured on further traces into the classifier's card and README.

    Args:
        artifact: The classifier.
        name: What it was measured on; figures of the same name are replaced.
        figures: Plain data, as `RegionMetrics.to_dict` gives them.

    Raises:
        ArtifactError: The figures that the card has already are no figures.
        StorageError: A file could not be written.
    """
    card = artifact.card
    try:
        evaluations = {**card.metrics.get("evaluations", {}), name: dict(figures)}
        card = dataclasses.replace(card, metrics={**card.metrics, "evaluations": evaluations})
        text = model_card(card)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{artifact.folder / CARD_FILE} has a field 'metrics' that does not fit ({error!r}); "
            "export the classifier again with `memdecay train`"
        ) from error
    write_text_atomically(artifact.folder / MODEL_CARD_FILE, text)
    write_text_atomically(artifact.folder / CARD_FILE, card.to_json())
    return ClassifierArtifact(artifact.folder, card)


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that shaped an export."""
    versions = {name: metadata.version(name) for name in _VERSIONED_PACKAGES}
    # Not by distribution: the same module comes from onnxruntime or onnxruntime-gpu.
    versions["onnxruntime"] = onnxruntime.__version__
    versions["python"] = platform.python_version()
    versions["memdecay"] = metadata.version("memdecay")
    return versions | {"torch": torch.__version__}


def _digest(path: Path) -> FileDigest:
    return FileDigest(path.stat().st_size, file_sha256(path))


def _check_file(path: Path, expected: FileDigest | None) -> None:
    if expected is None:
        raise ArtifactError(
            f"{path.parent / CARD_FILE} lists no digest of {path.name}; "
            "export the classifier again with `memdecay train`"
        )
    if not path.is_file():
        raise ArtifactError(
            f"{path} is missing; copy the whole classifier folder or export it again"
        )
    found = _digest(path)
    if found.size_bytes != expected.size_bytes:
        raise ArtifactError(
            f"{path} has {found.size_bytes} bytes, expected {expected.size_bytes}: it was cut off "
            "or replaced; copy the classifier folder again or export it again"
        )
    if found != expected:
        raise ArtifactError(
            f"{path} does not match the SHA-256 in {CARD_FILE}: it was damaged or replaced; "
            "copy the classifier folder again or export it again"
        )
