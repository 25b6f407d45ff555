"""Train, calibrate, measure and export a region classifier."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from memdecay.classifier.artifact import save_artifact
from memdecay.classifier.card import ClassifierCard
from memdecay.classifier.export import ParityReport, TaggingInputs, example_inputs
from memdecay.classifier.features import RULE_SCORES_COLUMN, FeatureLayout
from memdecay.classifier.graph import TaggingGraph
from memdecay.classifier.network import NetworkConfig, RegionNetwork
from memdecay.data.extraction import Progress
from memdecay.training.baselines import RULES, RuleRegions, measure_baselines
from memdecay.training.chunks import WindowSource, collate
from memdecay.training.config import ClassWeighting, TrainingConfig
from memdecay.training.datamodule import RegionDataModule
from memdecay.training.metrics import RegionMetrics, fit_temperature, region_metrics
from memdecay.training.module import RegionModule
from memdecay.training.predict import predict_logits
from memdecay.training.trainer import TrainingRun, train

_PARITY_WINDOWS = 2
_PARITY_TOKENS = 512


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What a classifier is trained on.

    Attributes:
        source: All windows.
        windows: Window indices by ``train``, ``validation`` and ``test``.
        feature_layout: What the windows' features are.
        llm_name: Name of the LLM that made the hidden states.
        llm_fingerprint: Its fingerprint.
        trained_on: Content digests of the training and validation traces.
        facts: What the card should tell about the data.
        rules: Returns the rule tagger's regions by window; None where it is not to be compared
            with.
        stores: Names of the stores that the windows come from; each stands for the traces, their
            labels, the LLM and the layer.
    """

    source: WindowSource
    windows: Mapping[str, Sequence[int]]
    feature_layout: FeatureLayout
    llm_name: str
    llm_fingerprint: str
    trained_on: tuple[str, ...] = ()
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rules: Callable[[], RuleRegions] | None = None
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FitResult:
    """What came of a training run.

    Attributes:
        folder: The classifier folder.
        metrics: Figures on the test traces, after temperature scaling.
        baselines: Figures of the baselines on the same traces, by name.
        ece_before: Calibration error on the test traces before it.
        temperature: The temperature.
        parity: Largest differences between torch and ONNX Runtime.
        num_epochs: Passes over the training tokens, those of a resumed run included.
        num_parameters: Weights of the network.
    """

    folder: Path
    metrics: RegionMetrics
    baselines: Mapping[str, RegionMetrics]
    ece_before: float
    temperature: float
    parity: ParityReport
    num_epochs: int
    num_parameters: int


def fit(
    data: TrainingData, config: TrainingConfig, folder: Path, *, progress: Progress | None = None
) -> FitResult | None:
    """Train a classifier and export it into a folder.

    An interrupted run with the same data and settings goes on after its last finished epoch.

    Args:
        data: The windows and where they come from.
        config: Settings.
        folder: The classifier folder to write; logs and checkpoints go into its ``training``.
        progress: Called with steps done and steps at most.

    Returns:
        The result, or None in the helper processes of a multi-process strategy.

    Raises:
        StorageError: Something could not be written.
        ArtifactError: The exported graph disagrees with torch.
    """
    run = train_network(data, config, folder, progress=progress)
    return _finish(data, config, folder, run) if run.is_main_process else None


def train_network(
    data: TrainingData, config: TrainingConfig, folder: Path, *, progress: Progress | None = None
) -> TrainingRun:
    """Train the network alone; see `fit`."""
    network_config = NetworkConfig(
        hidden_size=data.feature_layout.hidden_size,
        num_position_features=data.feature_layout.num_position_features,
        rules_column=RULE_SCORES_COLUMN,
        **dataclasses.asdict(config.network),
    )
    datamodule = RegionDataModule(data.source, data.windows, config)
    weights = class_weights(
        torch.from_numpy(datamodule.region_counts()), config.optimizer.class_weighting
    )
    torch.manual_seed(config.seed)
    module = RegionModule(network_config, config.optimizer, weights)
    module.network.standardize(*datamodule.feature_statistics())
    run_folder = folder / "training" / run_fingerprint(data, config)
    return train(module, datamodule, config, run_folder, progress=progress)


def class_weights(region_counts: Tensor, weighting: ClassWeighting) -> Tensor | None:
    """Return loss weights per region with mean one over the training tokens.

    Args:
        region_counts: ``(num_regions,)``, int64.
        weighting: How much rare regions count.

    Returns:
        ``(num_regions,)``, float32; a region without tokens gets zero. None for no weighting.
    """
    if weighting is ClassWeighting.NONE:
        return None
    counts = region_counts.to(torch.float32)
    power = 0.5 if weighting is ClassWeighting.SQRT else 1.0
    weights = torch.where(counts > 0, counts.clamp_min(1.0) ** -power, 0.0)
    return weights * counts.sum() / (weights * counts).sum().clamp_min(1e-12)


def run_fingerprint(data: TrainingData, config: TrainingConfig) -> str:
    """Return a short name for the training run that this data and these settings define.

    Two runs with one name are the same run, so that one may go on where the other was killed.
    """
    settings = dataclasses.asdict(config)
    # Neither where it trains nor what is done with its logits changes what a checkpoint means.
    del settings["device"], settings["temperature"]
    text = json.dumps(
        [
            settings,
            dataclasses.asdict(data.feature_layout),
            data.llm_fingerprint,
            sorted(data.trained_on),
            # Labels that were corrected make another run: the digests above don't know them.
            list(data.stores),
            {part: list(indices) for part, indices in sorted(data.windows.items())},
            torch.__version__,
        ],
        sort_keys=True,
        default=str,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _finish(
    data: TrainingData, config: TrainingConfig, folder: Path, run: TrainingRun
) -> FitResult:
    network = run.network
    temperature = config.temperature or fit_temperature(
        *predict_logits(network, data.source, data.windows["validation"])
    )
    logits, labels = predict_logits(network, data.source, data.windows["test"])
    metrics = region_metrics(torch.softmax(logits / temperature, dim=-1), labels)
    uncalibrated = region_metrics(torch.softmax(logits, dim=-1), labels)
    baselines = measure_baselines(
        data.source,
        data.windows["train"],
        data.windows["test"],
        data.rules() if data.rules else None,
        config.seed,
    )
    graph = TaggingGraph(network, config.region_table, config.propagation, temperature).eval()
    card = ClassifierCard(
        llm_name=data.llm_name,
        llm_fingerprint=data.llm_fingerprint,
        feature_layout=data.feature_layout,
        network=network.config,
        region_table=config.region_table,
        propagation=config.propagation,
        temperature=temperature,
        metrics=metrics.to_dict()
        | {
            "ece_before_temperature": uncalibrated.ece,
            "baselines": {name: _plain(name, found) for name, found in baselines.items()},
        },
        training={**data.facts, "seed": config.seed, "epochs": run.num_epochs},
        trained_on=data.trained_on,
    )
    parity = save_artifact(folder, graph, card, _parity_samples(graph, data))
    return FitResult(
        folder=folder,
        metrics=metrics,
        baselines=baselines,
        ece_before=uncalibrated.ece,
        temperature=temperature,
        parity=parity,
        num_epochs=run.num_epochs,
        num_parameters=count_parameters(network),
    )


def _plain(name: str, metrics: RegionMetrics) -> dict[str, Any]:
    figures = metrics.to_dict()
    if name == RULES:
        del figures["ece"]  # Rules are always certain.
    return figures


def count_parameters(network: RegionNetwork) -> int:
    """Return the number of trainable weights."""
    return sum(parameter.numel() for parameter in network.parameters())


def _parity_samples(graph: TaggingGraph, data: TrainingData) -> list[TaggingInputs]:
    generator = torch.Generator().manual_seed(0)
    samples = [
        example_inputs(graph, batch, seq_len, generator)
        for batch, seq_len in ((1, 0), (1, 1), (3, 33))
    ]
    for index in list(data.windows["test"])[:_PARITY_WINDOWS]:
        batch = collate([data.source.window(index)])
        samples.append(
            (
                batch.hidden_states[:, :_PARITY_TOKENS],
                batch.position_features[:, :_PARITY_TOKENS],
                batch.token_mask[:, :_PARITY_TOKENS],
            )
        )
    return samples
