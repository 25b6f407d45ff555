"""The card of a classifier folder: what the classifier is, for which LLM, and how good."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.features import FeatureLayout
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import REGION_LABELS, RegionTable

FORMAT_VERSION = 1

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FileDigest:
    """Size and SHA-256 of a file of the folder, by which a damaged one is found."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ClassifierCard:
    """All that is needed to use a classifier, and to know whether it fits an LLM.

    Attributes:
        llm_name: Name under which the LLM was loaded for training.
        llm_fingerprint: Fingerprint of its architecture and weights.
        feature_layout: Which hidden state and which position features the network reads.
        network: Sizes of the network.
        region_table: Initial score and decay per region.
        propagation: How importance spreads.
        temperature: Divisor of the logits, fitted on held-out traces.
        metrics: Figures on held-out traces.
        training: How it was trained: seed, counts, settings.
        trained_on: Content digests of the traces used for training, so that an evaluation on them
            can say so.
        versions: Library versions at export.
        files: Digest of each file beside the card.
    """

    llm_name: str
    llm_fingerprint: str
    feature_layout: FeatureLayout
    network: NetworkConfig
    region_table: RegionTable
    propagation: PropagationConfig
    temperature: float
    metrics: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    trained_on: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, FileDigest] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the card as JSON text that `from_json` reads back."""
        data = {
            "format_version": FORMAT_VERSION,
            "regions": list(REGION_LABELS),
            "llm": {"name": self.llm_name, "fingerprint": self.llm_fingerprint},
            "layer": self.feature_layout.layer,
            "hidden_size": self.feature_layout.hidden_size,
            "feature_layout": asdict(self.feature_layout),
            "network": asdict(self.network),
            "region_table": self.region_table.to_dict(),
            "propagation": asdict(self.propagation),
            "temperature": self.temperature,
            "metrics": dict(self.metrics),
            "training": dict(self.training),
            "trained_on": list(self.trained_on),
            "versions": dict(self.versions),
            "files": {name: asdict(digest) for name, digest in self.files.items()},
        }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, path: Path) -> ClassifierCard:
        """Read a card.

        Args:
            text: The card's JSON text.
            path: Where it came from, for messages.

        Raises:
            ArtifactError: The text is no card, comes from a newer format or has a field that does
                not fit.
        """
        data = _parse_object(text, path)
        _check_format(data, path)
        return cls(
            llm_name=_read(data, "llm", lambda value: str(value["name"]), path),
            llm_fingerprint=_read(data, "llm", lambda value: str(value["fingerprint"]), path),
            feature_layout=_read(data, "feature_layout", _feature_layout, path),
            network=_read(data, "network", lambda value: NetworkConfig(**value), path),
            region_table=_read(data, "region_table", RegionTable.from_dict, path),
            propagation=_read(data, "propagation", lambda value: PropagationConfig(**value), path),
            temperature=_read(data, "temperature", _positive, path),
            metrics=_read(data, "metrics", dict, path),
            training=_read(data, "training", dict, path),
            trained_on=_read(data, "trained_on", tuple, path),
            versions=_read(data, "versions", dict, path),
            files=_read(
                data,
                "files",
                lambda value: {name: FileDigest(**digest) for name, digest in value.items()},
                path,
            ),
        )


def _parse_object(text: str, path: Path) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ArtifactError(
            f"{path} is not JSON (line {error.lineno}: {error.msg}); it was cut off or edited, "
            "so export the classifier again with `memdecay train`"
        ) from error
    if not isinstance(data, dict) or "format_version" not in data:
        raise ArtifactError(
            f"{path} is no classifier card (it has no format_version); "
            "give the folder that `memdecay train` wrote"
        )
    return data


def _check_format(data: Mapping[str, Any], path: Path) -> None:
    version = data["format_version"]
    if not isinstance(version, int) or version < 1:
        raise ArtifactError(
            f"{path} has format_version {version!r}, expected a whole number from 1 to "
            f"{FORMAT_VERSION}; export the classifier again with `memdecay train`"
        )
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"{path} has format version {version}, but this memdecay reads up to version "
            f"{FORMAT_VERSION}; update memdecay or export the classifier again"
        )
    if data.get("regions") != list(REGION_LABELS):
        raise ArtifactError(
            f"{path} lists the regions {data.get('regions')}, expected {list(REGION_LABELS)}; "
            "train the classifier again with this memdecay"
        )


def _read(data: Mapping[str, Any], key: str, convert: Callable[[Any], _T], path: Path) -> _T:
    if key not in data:
        raise ArtifactError(
            f"{path} has no field {key!r}; export the classifier again with `memdecay train`"
        )
    try:
        return convert(data[key])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{path} has a field {key!r} that does not fit ({error}); "
            "export the classifier again with `memdecay train`"
        ) from error


def _feature_layout(value: Mapping[str, Any]) -> FeatureLayout:
    # JSON knows no tuples; the layout's fields are compared and hashed as such.
    fields: dict[str, Any] = {
        name: tuple(item) if isinstance(item, list) else item for name, item in value.items()
    }
    return FeatureLayout(**fields)


def _positive(value: Any) -> float:
    number = float(value)
    if not number > 0:
        raise ValueError(f"expected a number above 0, got {value!r}")
    return number
