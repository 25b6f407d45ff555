"""The card of a classifier folder: what the classifier is, for which LLM, and how good."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.features import FeatureLayout
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.plain_data import from_plain, mapping, plain_value, short
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import REGION_LABELS, RegionTable

FORMAT_VERSION = 1
_ADVICE = "export the classifier again with `memdecay train`"

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
        llm = _read(data, "llm", partial(from_plain, _TrainedWith), path)
        layout = _read(data, "feature_layout", partial(from_plain, FeatureLayout), path)
        network = _read(data, "network", partial(from_plain, NetworkConfig), path)
        _check_agreement(data, layout, network, path)
        return cls(
            llm_name=llm.name,
            llm_fingerprint=llm.fingerprint,
            feature_layout=layout,
            network=network,
            region_table=_read(data, "region_table", RegionTable.from_dict, path),
            propagation=_read(data, "propagation", partial(from_plain, PropagationConfig), path),
            temperature=_read(data, "temperature", _positive, path),
            metrics=_read(data, "metrics", _object, path),
            training=_read(data, "training", _object, path),
            trained_on=_read(data, "trained_on", _texts, path),
            versions=_read(data, "versions", _object, path),
            files=_read(data, "files", _digests, path),
        )


def _parse_object(text: str, path: Path) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = f"line {error.lineno}: {error.msg}"
        raise ArtifactError(
            f"{path} is not JSON ({reason}); it was cut off or edited, so {_ADVICE}"
        ) from error
    if not isinstance(data, dict) or "format_version" not in data:
        raise ArtifactError(
            f"{path} is no classifier card (it has no format_version); "
            "give the folder that `memdecay train` wrote"
        )
    return data


def _check_format(data: Mapping[str, Any], path: Path) -> None:
    version = data["format_version"]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ArtifactError(
            f"{path} has format_version {short(version)}, expected a whole number from 1 to "
            f"{FORMAT_VERSION}; {_ADVICE}"
        )
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"{path} has format version {version}, but this memdecay reads up to version "
            f"{FORMAT_VERSION}; update memdecay or export the classifier again"
        )
    if data.get("regions") != list(REGION_LABELS):
        raise ArtifactError(
            f"{path} lists the regions {short(data.get('regions'))}, expected "
            f"{list(REGION_LABELS)}; train the classifier again with this memdecay"
        )


@dataclass(frozen=True, slots=True)
class _TrainedWith:
    name: str
    fingerprint: str


def _check_agreement(
    data: Mapping[str, Any], layout: FeatureLayout, network: NetworkConfig, path: Path
) -> None:
    """Check what the card says in two places.

    Raises:
        ArtifactError: The places contradict each other.
    """
    pairs = (
        ("layer", data.get("layer"), layout.layer),
        ("hidden_size", data.get("hidden_size"), layout.hidden_size),
        ("network.hidden_size", network.hidden_size, layout.hidden_size),
        (
            "network.num_position_features",
            network.num_position_features,
            layout.num_position_features,
        ),
    )
    for name, value, expected in pairs:
        if type(value) is not int or value != expected:
            raise ArtifactError(
                f"{path} has {name} {short(value)}, but its feature_layout says {expected}; it was "
                f"edited, so {_ADVICE}"
            )


def _read(data: Mapping[str, Any], key: str, convert: Callable[[Any], _T], path: Path) -> _T:
    if key not in data:
        raise ArtifactError(f"{path} has no field {key!r}; {_ADVICE}")
    try:
        return convert(data[key])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{path} has a field {key!r} that does not fit ({error}); {_ADVICE}"
        ) from error


def _object(value: object) -> dict[str, Any]:
    return dict(mapping(value))


def _texts(value: object) -> tuple[str, ...]:
    texts: tuple[str, ...] = plain_value(tuple[str, ...], value, "the list")
    return texts


def _digests(value: object) -> dict[str, FileDigest]:
    return {name: from_plain(FileDigest, digest) for name, digest in mapping(value).items()}


def _positive(value: object) -> float:
    number: float = plain_value(float, value, "it")
    if not number > 0:
        raise ValueError(f"expected a number above 0, got {value!r}")
    return number
