from __future__ import annotations

import contextlib
import json
import logging
import warnings
from pathlib import Path

import pytest
import torch
from transformers.utils import logging as transformers_logging

from memdecay.classifier import llm as llm_module
from memdecay.classifier.chat_template import template_fault
from memdecay.classifier.errors import ConfigError, ModelError
from memdecay.classifier.llm import (
    cpu_multiplies_bfloat16,
    load_llm,
    quiet_transformers,
    resolve_device,
    resolve_dtype,
)
from memdecay.classifier.rendering import render
from tests.tiny import CHATML, NATIVE_TOOLS, STRICT, TRIMMING, tiny_llama, tiny_tokenizer

CPU = torch.device("cpu")


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    with quiet_transformers():
        tiny_llama().save_pretrained(tmp_path)
        tiny_tokenizer().save_pretrained(tmp_path)
    return tmp_path


def test_local_folder_is_loaded_for_inference(model_folder: Path) -> None:
    llm = load_llm(str(model_folder), dtype="float32", device="cpu")
    assert (llm.hidden_size, llm.num_layers, llm.max_context) == (32, 4, 512)
    assert (llm.device, llm.dtype, llm.name) == (CPU, torch.float32, str(model_folder))
    assert not llm.model.training
    assert not any(parameter.requires_grad for parameter in llm.model.parameters())
    input_ids = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(llm.model(input_ids).logits, tiny_llama()(input_ids).logits)
    assert llm.tokenizer.chat_template == tiny_tokenizer().chat_template


def test_dtype_is_that_of_the_weights(model_folder: Path) -> None:
    llm = load_llm(str(model_folder), dtype="bfloat16", device="cpu")
    assert llm.model.dtype == llm.dtype == torch.bfloat16


def test_loading_is_silent(model_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load_llm(str(model_folder), device="cpu")
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% for message in messages %}", "Unexpected end of template"),
        ("{{ messages | reversed_twice }}", "No filter named 'reversed_twice'"),
        ("{{ raise_exception('never') }}", "never"),
        ("{{ 1 / 0 }}", "division by zero"),
    ],
)
def test_template_that_can_render_nothing_is_said(
    model_folder: Path, template: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    tiny_tokenizer(template).save_pretrained(model_folder)
    with caplog.at_level(logging.WARNING, "memdecay"):
        llm = load_llm(str(model_folder), device="cpu")
    assert "conversations are rendered neutrally" in caplog.text
    assert reason in caplog.text
    assert render([{"role": "user", "content": "Hello"}], llm.tokenizer).is_neutral


@pytest.mark.parametrize("template", [CHATML, STRICT, TRIMMING, NATIVE_TOOLS, None])
def test_template_that_works_or_is_absent_has_no_fault(template: str | None) -> None:
    assert template_fault(tiny_tokenizer(template)) is None


def test_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no language model") as caught:
        load_llm(str(tmp_path), device="cpu")
    assert "\n" not in str(caught.value)


def test_truncated_weights_are_named(model_folder: Path) -> None:
    weights = model_folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="holds no language model"):
        load_llm(str(model_folder), device="cpu")


@pytest.mark.parametrize("config", ["[]", "{", '{"model_type": "llama", "hidden_size": "x"}'])
def test_senseless_config_is_named(model_folder: Path, config: str) -> None:
    (model_folder / "config.json").write_text(config)
    with pytest.raises(ModelError, match="holds no language model that can be read"):
        load_llm(str(model_folder), device="cpu")


def test_model_that_lacks_weights_is_refused(model_folder: Path) -> None:
    config = json.loads((model_folder / "config.json").read_text())
    config["num_hidden_layers"] += 1
    config.pop("layer_types", None)
    (model_folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"lacks \d+ of its weights \(model\.layers\."):
        load_llm(str(model_folder), device="cpu")


@pytest.mark.parametrize("device", ["meta", "xpu"])
def test_device_that_torch_knows_but_we_do_not_is_refused(device: str) -> None:
    with pytest.raises(ConfigError, match="is not supported"):
        load_llm("any", device=device)


def test_unknown_name_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_module, "_hub_is_reachable", lambda: False)
    with pytest.raises(ModelError, match="neither a local folder nor a model id") as caught:
        load_llm("nobody/no-such-model", device="cpu")
    assert "\n" not in str(caught.value)


def test_unreachable_hub_is_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(llm_module.socket, "create_connection", refuse)
    monkeypatch.setattr(llm_module, "getproxies", dict)
    assert not llm_module._hub_is_reachable()


@pytest.mark.parametrize("name", ["int8", "", "torch.float32"])
def test_unknown_dtype_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown dtype"):
        resolve_dtype(name, CPU)


@pytest.mark.parametrize(
    ("capabilities", "dtype"),
    [
        ({"avx2": True, "avx512_bf16": False}, torch.float32),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({"neon": True, "bf16": True}, torch.bfloat16),
        ({"neon": True}, torch.float32),
    ],
)
def test_cpu_uses_bfloat16_only_where_it_is_native(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool], dtype: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert resolve_dtype("auto", CPU) == dtype


def test_cuda_uses_bfloat16() -> None:
    assert resolve_dtype("auto", torch.device("cuda")) == torch.bfloat16


def test_torch_that_cannot_tell_counts_as_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert not cpu_multiplies_bfloat16()


def test_device_follows_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")


def test_unknown_device_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown device 'gpu7'"):
        resolve_device("gpu7")


def test_absent_cuda_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert resolve_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(ConfigError, match="torch sees 1 CUDA"):
        resolve_device("cuda:1")


def test_quiet_settings_are_put_back() -> None:
    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    with contextlib.suppress(KeyError), quiet_transformers():
        warnings.warn("hidden", UserWarning, stacklevel=1)
        assert not transformers_logging.is_progress_bar_enabled()
        raise KeyError
    after = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    assert before == after
