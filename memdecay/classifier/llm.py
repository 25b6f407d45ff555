"""Load a language model with its tokenizer, by name, folder or hub id."""

from __future__ import annotations

import logging
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from huggingface_hub import constants as hub_constants
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from memdecay.classifier.chat_template import template_fault
from memdecay.classifier.embedded import EMBEDDED_NAME, embedded_model_folder
from memdecay.classifier.errors import ConfigError, ModelError

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_NATIVE_BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
_HUB_TIMEOUT_S = 5.0
# What transformers raises on files that are missing, damaged or of another kind.
_UNREADABLE = (
    OSError,
    ValueError,
    RuntimeError,
    LookupError,
    TypeError,
    AttributeError,
    ImportError,
    SafetensorError,
    StrictDataclassError,
)


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A causal language model, ready for inference, and what goes with it.

    Attributes:
        model: The transformers model, in eval mode, without gradients.
        tokenizer: Its fast tokenizer.
        name: The name it was asked for by.
        device: Where the weights lie.
        dtype: The type of its weights and hidden states.
    """

    model: Any
    tokenizer: Any
    name: str
    device: torch.device
    dtype: torch.dtype

    @property
    def hidden_size(self) -> int:
        """Width of a hidden state."""
        return int(self.model.config.get_text_config().hidden_size)

    @property
    def num_layers(self) -> int:
        """Number of decoder layers."""
        return int(self.model.config.get_text_config().num_hidden_layers)

    @property
    def max_context(self) -> int:
        """The most tokens that one sequence may have."""
        return int(self.model.config.get_text_config().max_position_embeddings)


def load_llm(name: str, dtype: str = "auto", device: str = "auto") -> LanguageModel:
    """Load a language model for inference.

    Args:
        name: ``smollm2`` for the embedded default (converted once, in about a minute), a local
            folder, or a model id of the Hugging Face hub.
        dtype: ``float32``, ``bfloat16``, ``float16`` or ``auto`` (see `resolve_dtype`).
        device: A torch device such as ``cpu`` or ``cuda:1``; ``auto`` takes CUDA if there is one.

    Raises:
        ConfigError: dtype or device is unknown, or the device is not here.
        ModelError: The model cannot be found or read.
        StorageError: The embedded model cannot be written to the cache folder.
    """
    torch_device = resolve_device(device)
    torch_dtype = resolve_dtype(dtype, torch_device)
    with quiet_transformers():
        tokenizer, model = _from_pretrained(name, _folder_of(name), torch_dtype)
        model = model.to(torch_device).eval().requires_grad_(False)
    if fault := template_fault(tokenizer):
        logger.warning(
            "The chat template of %s can't be used (%s): conversations are rendered neutrally, "
            "unlike in the model's training; mend the template",
            name,
            fault,
        )
    return LanguageModel(model, tokenizer, name, torch_device, torch_dtype)


def load_llm_shape(name: str) -> tuple[Any, int]:
    """Return a model's text config and its number of weights, tied ones once, without loading it.

    Args:
        name: See `load_llm`.

    Raises:
        ModelError: The model cannot be found or read.
        StorageError: The embedded model cannot be written to the cache folder.
    """
    with _reading_part("config", name) as source:
        config = AutoConfig.from_pretrained(source.place, local_files_only=source.is_offline)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    return config.get_text_config(), num_parameters


def load_tokenizer(name: str) -> Any:
    """Load a model's tokenizer without the model.

    Args:
        name: See `load_llm`.

    Raises:
        ModelError: The tokenizer cannot be found or read.
        StorageError: The embedded model cannot be written to the cache folder.
    """
    with _reading_part("tokenizer", name) as source:
        return AutoTokenizer.from_pretrained(source.place, local_files_only=source.is_offline)


def resolve_device(device: str) -> torch.device:
    """Return the torch device of this name; ``auto`` is CUDA if there is one, else the CPU.

    Raises:
        ConfigError: The name is no device, or names a CUDA device that is not here.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(
            f"unknown device {device!r}; expected auto, cpu, cuda or cuda:N"
        ) from error
    if resolved.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {device!r} is not supported; expected auto, cpu, cuda or cuda:N")
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device {device!r} was asked for but torch sees {torch.cuda.device_count()} CUDA "
            "devices; use --device cpu or auto"
        )
    return resolved


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Return the torch type of this name.

    ``auto`` is bfloat16 on CUDA and on CPUs that multiply it natively, else float32: a CPU
    without such instructions emulates bfloat16 tens of times slower than float32.

    Raises:
        ConfigError: The name is unknown.
    """
    if dtype == "auto":
        is_native = device.type == "cuda" or cpu_multiplies_bfloat16()
        return torch.bfloat16 if is_native else torch.float32
    try:
        return DTYPES[dtype]
    except KeyError:
        raise ConfigError(f"unknown dtype {dtype!r}; expected auto, {', '.join(DTYPES)}") from None


def cpu_multiplies_bfloat16() -> bool:
    """Return whether this CPU has instructions that multiply bfloat16."""
    read_capabilities = getattr(torch.cpu, "get_capabilities", None)
    if read_capabilities is None:
        return False
    capabilities = read_capabilities()
    return any(capabilities.get(name, False) for name in _NATIVE_BFLOAT16)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hide transformers' progress bars, log lines and warnings, then put the settings back."""
    verbosity = transformers_logging.get_verbosity()
    had_progress_bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if had_progress_bar:
            transformers_logging.enable_progress_bar()


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a model's files are.

    Attributes:
        place: A folder, or a hub id.
        is_folder: Which of them.
    """

    place: str
    is_folder: bool

    @classmethod
    def of(cls, folder: str) -> _Source:
        path = Path(folder).expanduser()
        return cls(str(path), True) if path.is_dir() else cls(folder, False)

    @property
    def is_offline(self) -> bool:
        """Whether only files of this machine are to be read."""
        # Without the check an unreachable hub is retried for a minute and a half.
        return self.is_folder or not _hub_is_reachable()


def _folder_of(name: str) -> str:
    return str(embedded_model_folder()) if name == EMBEDDED_NAME else name


@contextmanager
def _reading_part(part: str, name: str) -> Iterator[_Source]:
    """Say of a part of a model that can't be read which it is."""
    with quiet_transformers():
        source = _Source.of(_folder_of(name))
        try:
            yield source
        except _UNREADABLE as error:
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(
                f"the {part} of the language model {name!r} can't be read ({reason}); give "
                f"{EMBEDDED_NAME!r}, a local folder or a hub id"
            ) from error


def _from_pretrained(name: str, folder: str, dtype: torch.dtype) -> tuple[Any, Any]:
    source = _Source.of(folder)
    try:
        local_only = source.is_offline
        tokenizer = AutoTokenizer.from_pretrained(source.place, local_files_only=local_only)
        model, loading = AutoModelForCausalLM.from_pretrained(
            source.place, dtype=dtype, local_files_only=local_only, output_loading_info=True
        )
    except _UNREADABLE as error:
        if source.is_folder:
            reason = str(error).strip().partition("\n")[0]
            message = f"the folder {name!r} holds no language model that can be read: {reason}"
        else:
            message = (
                f"no language model {name!r}: it is neither a local folder nor a model id that "
                "the Hugging Face hub (or its cache on this machine) answers to; check the "
                f"spelling and the network, or use {EMBEDDED_NAME!r}"
            )
        raise ModelError(message) from error
    if missing := sorted(loading["missing_keys"]):
        # transformers would draw them at random and only warn.
        raise ModelError(
            f"the language model {name!r} lacks {len(missing)} of its weights ({missing[0]}, ...); "
            "copy or download it again"
        )
    return tokenizer, model


def _hub_is_reachable() -> bool:
    if hub_constants.HF_HUB_OFFLINE:
        return False
    if getproxies():
        return True
    endpoint = urlsplit(hub_constants.ENDPOINT)
    address = (endpoint.hostname or "", endpoint.port or 443)
    try:
        with socket.create_connection(address, timeout=_HUB_TIMEOUT_S):
            return True
    except OSError:
        return False
