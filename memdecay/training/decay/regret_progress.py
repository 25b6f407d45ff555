"""The regret of traces as it is measured, on disk, so that a killed run goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memdecay.classifier.plain_data import mapping
from memdecay.classifier.regions import Region
from memdecay.classifier.regret import ConfusionCost, EvictionRegret
from memdecay.classifier.storage import write_text_atomically
from memdecay.data.digests import digest, trace_digest
from memdecay.data.schema import trace_to_data
from memdecay.data.trace import Trace

TRACES_FILE = "traces.json"


class RegretProgress:
    """A file with the figures of each trace.

    Args:
        folder: Where `TRACES_FILE` is; made where it is missing.
        settings: All that the figures depend on beside the trace, as plain data. Those of other
            settings are passed over.
    """

    def __init__(self, folder: Path, settings: object) -> None:
        self._path = folder / TRACES_FILE
        self._settings = digest(settings)
        self._known = _load(self._path, self._settings)

    def is_measured(self, trace: Trace) -> bool:
        """Tell whether the file has the trace."""
        return _key(trace) in self._known

    def find(self, trace: Trace) -> EvictionRegret | None:
        """Return a trace's figures; None where it has nothing to regret or is not measured."""
        return self._known.get(_key(trace))

    def save(self, trace: Trace, regret: EvictionRegret | None) -> None:
        """Keep a trace's figures.

        Raises:
            StorageError: They could not be written.
        """
        self._known[_key(trace)] = regret
        traces = {key: found and asdict(found) for key, found in self._known.items()}
        data = {"settings": self._settings, "traces": traces}
        write_text_atomically(self._path, json.dumps(data, indent=1) + "\n")


def _key(trace: Trace) -> str:
    labels = digest(trace_to_data(trace).get("spans"))
    return f"{trace_digest(trace)}-{labels}"


def _load(path: Path, settings: str) -> dict[str, EvictionRegret | None]:
    try:
        data = mapping(json.loads(path.read_text(encoding="utf-8")))
        if data["settings"] != settings:
            return {}
        return {key: found and _regret(found) for key, found in mapping(data["traces"]).items()}
    except (OSError, ValueError, TypeError, KeyError):
        return {}  # Nothing to go on from: measured anew.


def _regret(value: Any) -> EvictionRegret:
    figures = dict(mapping(value))
    costs = tuple(_cost(mapping(cost)) for cost in figures.pop("confusions"))
    return EvictionRegret(confusions=costs, **figures)


def _cost(value: Any) -> ConfusionCost:
    return ConfusionCost(
        **{**value, "gold": Region(value["gold"]), "predicted": Region(value["predicted"])}
    )
