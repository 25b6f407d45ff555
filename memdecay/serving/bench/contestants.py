"""The servers that are compared, and how each is started."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memdecay.classifier.embedded import EMBEDDED_NAME, embedded_model_folder
from memdecay.classifier.errors import ConfigError

MEMDECAY, FULL, TRANSFORMERS = "memdecay", "full", "transformers"
RUNNING = "running"
"""The name of a server that runs already."""

CONTESTANTS: Mapping[str, str] = {
    MEMDECAY: "memdecay serve",
    FULL: "memdecay serve --policy full --prefix-cache 0",
    TRANSFORMERS: "transformers serve",
}
"""What each contestant is."""

_MEMDECAY_PROGRAM = "from memdecay.cli import main; main()"
_TRANSFORMERS_PROGRAM = "from transformers.cli.transformers import main; main()"
_TRANSFORMERS_PACKAGES = ("fastapi", "uvicorn", "pydantic", "openai")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that all contestants serve.

    Attributes:
        name: See `memdecay.classifier.llm.load_llm`.
        dtype: Type of its weights, not ``auto``.
        device: A torch device.
    """

    name: str
    dtype: str
    device: str


@dataclass(frozen=True, slots=True)
class CacheChoice:
    """What memdecay's servers keep.

    Attributes:
        budget: Tokens of a session.
        kv_memory_bytes: Bytes of all sessions; None for no limit.
        max_sessions: Sessions on the device.
        classifier: Classifier folder; None for the packaged one.
    """

    budget: int
    kv_memory_bytes: int | None
    max_sessions: int
    classifier: str | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started and asked.

    Attributes:
        command: The program and its arguments, without the port.
        fields: What every request says beside the conversation.
        environment: Variables beside this process's own.
        is_memdecay: Whether it is memdecay's.
    """

    command: tuple[str, ...]
    fields: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    is_memdecay: bool = True


def make_launch(name: str, model: ModelChoice, cache: CacheChoice) -> Launch:
    """Return how a contestant is started.

    Raises:
        ConfigError: The name is unknown, or the contestant is not installed.
        ModelError: The embedded model can't be converted.
        StorageError: It can't be written.
    """
    if name == TRANSFORMERS:
        return _transformers(model)
    if name not in CONTESTANTS:
        raise ConfigError(f"unknown contestant {name!r}; expected {', '.join(CONTESTANTS)}")
    options = ["--budget", str(cache.budget), "--max-sessions", str(cache.max_sessions)]
    if name == FULL:
        options += ["--policy", "full", "--prefix-cache", "0"]
    elif cache.kv_memory_bytes is not None:
        options += ["--kv-memory", str(cache.kv_memory_bytes)]
    if cache.classifier is not None:
        options += ["--classifier", cache.classifier]
    command = (
        *(sys.executable, "-c", _MEMDECAY_PROGRAM, "serve", "--model", model.name),
        *("--dtype", model.dtype, "--device", model.device, "--host", "127.0.0.1"),
        *options,
    )
    fields = {"model": model.name, "stream_options": {"include_usage": True}}
    return Launch(command, fields)


def _transformers(model: ModelChoice) -> Launch:
    missing = [name for name in _TRANSFORMERS_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"transformers serve needs {', '.join(missing)}; install them with "
            "pip install 'transformers[serving]', or leave it out of --contestants"
        )
    is_embedded = model.name == EMBEDDED_NAME
    source = str(embedded_model_folder()) if is_embedded else os.path.expanduser(model.name)  # noqa: PTH111
    command = (
        *(sys.executable, "-c", _TRANSFORMERS_PROGRAM, "serve", source),
        *("--dtype", model.dtype, "--device", model.device, "--host", "127.0.0.1"),
    )
    # It refuses `stream_options`, and tells of the usage without.
    return Launch(command, {"model": source}, {"HF_HUB_OFFLINE": "1"}, is_memdecay=False)
