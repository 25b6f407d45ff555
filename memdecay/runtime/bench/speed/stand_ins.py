"""A model and heads with random weights, where only what they cost is asked for."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from memdecay.classifier.artifact import ClassifierArtifact, load_artifact, save_artifact
from memdecay.classifier.card import ClassifierCard
from memdecay.classifier.errors import ModelError
from memdecay.classifier.export import example_inputs
from memdecay.classifier.features import NUM_POSITION_FEATURES, FeatureLayout
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.graph import TaggingGraph
from memdecay.classifier.llm import (
    LanguageModel,
    quiet_transformers,
    resolve_device,
    resolve_dtype,
)
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import RegionTable
from memdecay.runtime.foresight.head import ForesightHead
from memdecay.runtime.layer import EvictingLayer
from memdecay.runtime.layer_plan import make_layers


def random_llm(config_path: Path, dtype: str = "auto", device: str = "auto") -> LanguageModel:
    """Build a language model from its configuration alone; its weights are random.

    Args:
        config_path: A transformers config as a JSON file, or a folder with a ``config.json``.
        dtype: See `memdecay.classifier.llm.load_llm`.
        device: See `memdecay.classifier.llm.load_llm`; the weights are drawn there.

    Returns:
        The model, with None as its tokenizer.

    Raises:
        ConfigError: dtype or device is unknown, or the device is not here.
        ModelError: The configuration can't be read, is no causal language model's, or the model
            does not fit the memory.
    """
    torch_device = resolve_device(device)
    torch_dtype = resolve_dtype(dtype, torch_device)
    config = _read_config(config_path)
    seeded = [torch_device] if torch_device.type == "cuda" else []
    with quiet_transformers(), torch.random.fork_rng(devices=seeded):
        torch.manual_seed(0)
        try:
            with torch_device:
                model = AutoModelForCausalLM.from_config(config, dtype=torch_dtype)
        except (ValueError, TypeError, AttributeError, RuntimeError, MemoryError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(
                f"no model can be built from {config_path} in {dtype} on {torch_device} "
                f"({reason}); give the config of a causal language model that fits the device"
            ) from error
    model = model.eval().requires_grad_(False)
    return LanguageModel(model, None, f"{config_path.stem} (random)", torch_device, torch_dtype)


def _read_config(path: Path) -> PretrainedConfig:
    path = path.expanduser()
    try:
        path.stat()  # transformers would take a path that is not there for a model's id.
        with quiet_transformers():
            return AutoConfig.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"{path} can't be read as a model's configuration ({reason}); give a transformers "
            "config.json or the folder that holds it"
        ) from error


def random_classifier(llm: LanguageModel, folder: Path) -> ClassifierArtifact:
    """Write a classifier of the usual size with random weights; it costs what a trained one costs.

    Args:
        llm: The language model whose hidden states it reads, at half of the depth.
        folder: Where to write it.

    Raises:
        StorageError: It could not be written.
    """
    network = NetworkConfig(llm.hidden_size, NUM_POSITION_FEATURES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        graph = TaggingGraph(network.build(), RegionTable(), PropagationConfig())
    card = ClassifierCard(
        llm_name=llm.name,
        llm_fingerprint=llm_fingerprint(llm.model),
        feature_layout=FeatureLayout(llm.num_layers // 2, llm.hidden_size),
        network=network,
        region_table=RegionTable(),
        propagation=graph.propagation,
        temperature=1.0,
    )
    sample = example_inputs(graph, 1, 16, torch.Generator().manual_seed(0))
    save_artifact(folder, graph, card, [sample])
    return load_artifact(folder)


def random_head(llm: LanguageModel) -> ForesightHead:
    """Return a foresight head with random weights; it costs what a fitted one costs."""
    config = llm.model.config.get_text_config(decoder=True)
    num_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    layers = make_layers(llm.model.config, lambda: EvictingLayer(1))
    num_norms = 2 * int(num_heads) * sum(isinstance(layer, EvictingLayer) for layer in layers)
    weights = torch.randn(num_norms, generator=torch.Generator().manual_seed(0)) / num_norms
    return ForesightHead(
        model=llm_fingerprint(llm.model),
        mean=(0.0,) * num_norms,
        scale=(1.0,) * num_norms,
        weights=tuple(weights.tolist()),
        attention_weight=0.5,
        made_by="random weights",
    )
