"""Export of the tagging graph to ONNX, and the proof that both say the same."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor

from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.graph import INPUT_NAMES, OUTPUT_NAMES, TaggingGraph

PARITY_TOLERANCE = 1e-4
_EXAMPLE_SHAPE = (2, 37)

TaggingInputs = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class ParityReport:
    """Largest absolute differences between torch and ONNX Runtime.

    Attributes:
        region_probs: Over all region probabilities.
        importance: Over all propagated importances.
        num_tokens: Tokens compared.
    """

    region_probs: float
    importance: float
    num_tokens: int

    @property
    def is_equal(self) -> bool:
        """Whether both lie within the tolerance."""
        return max(self.region_probs, self.importance) <= PARITY_TOLERANCE


def example_inputs(
    graph: TaggingGraph, batch: int, seq_len: int, generator: torch.Generator
) -> TaggingInputs:
    """Return random inputs of the graph's widths, with some padding on the left of the last row."""
    config = graph.network.config
    hidden_states = torch.randn(batch, seq_len, config.hidden_size, generator=generator)
    position_features = torch.rand(
        batch, seq_len, config.num_position_features, generator=generator
    )
    token_mask = torch.ones(batch, seq_len, dtype=torch.bool)
    token_mask[-1:, : seq_len // 4] = False
    return hidden_states, position_features, token_mask


def export_onnx(graph: TaggingGraph, path: Path) -> None:
    """Write the graph as one ONNX file with dynamic batch and length.

    Raises:
        OSError: The file cannot be written.
    """
    batch, seq_len = torch.export.Dim("batch"), torch.export.Dim("seq_len")
    axes = {0: batch, 1: seq_len}
    was_training = graph.training
    graph.eval()
    try:
        with _quiet_exporter():
            program = torch.onnx.export(
                graph,
                example_inputs(graph, *_EXAMPLE_SHAPE, torch.Generator().manual_seed(0)),
                input_names=INPUT_NAMES,
                output_names=OUTPUT_NAMES,
                dynamic_shapes=(axes, axes, axes),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    finally:
        graph.train(was_training)
    if program is None:
        raise RuntimeError("the ONNX exporter returned no program")
    path.write_bytes(without_source_lines(program.model_proto).SerializeToString())


def without_source_lines(model: Any) -> Any:
    """Drop what the exporter notes about the source lines behind each node, and return the model.

    The notes name folders of the machine that exported.
    """
    holders = [model, model.graph, *model.functions]
    nodes = [node for holder in (model.graph, *model.functions) for node in holder.node]
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    for part in (*holders, *nodes, *values, *model.graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    return model


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    # The exporter logs and warns about its own internals, which no caller can act on.
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def onnx_session(path: Path, providers: Sequence[str]) -> onnxruntime.InferenceSession:
    """Open an exported graph.

    Raises:
        ArtifactError: The file is no ONNX model that this ONNX Runtime can open.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # A graph this small loses more to thread hand-overs than it gains.
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(os.fspath(path), options, providers=list(providers))
    except Exception as error:
        raise ArtifactError(
            f"{path} cannot be opened as an ONNX model ({str(error).splitlines()[0]}); "
            "export the classifier again with `memdecay train`"
        ) from error


def run_session(
    session: onnxruntime.InferenceSession, inputs: TaggingInputs
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Run an exported graph on torch tensors held by the CPU.

    Returns:
        Region probabilities ``(batch, seq_len, num_regions)`` and importance ``(batch, seq_len)``.
    """
    feed = {name: value.numpy() for name, value in zip(INPUT_NAMES, inputs, strict=True)}
    region_probs, importance = session.run(list(OUTPUT_NAMES), feed)
    return region_probs, importance


def check_parity(graph: TaggingGraph, path: Path, samples: Sequence[TaggingInputs]) -> ParityReport:
    """Compare torch with ONNX Runtime on the same inputs.

    Raises:
        ArtifactError: The exported file cannot be opened.
    """
    session = onnx_session(path, ["CPUExecutionProvider"])
    was_training = graph.training
    graph.eval()
    worst_probs = worst_importance = 0.0
    num_tokens = 0
    try:
        for inputs in samples:
            with torch.inference_mode():
                expected_probs, expected_importance = graph(*inputs)
            region_probs, importance = run_session(session, inputs)
            worst_probs = max(worst_probs, _largest(expected_probs.numpy() - region_probs))
            difference = expected_importance.numpy() - importance
            worst_importance = max(worst_importance, _largest(difference))
            num_tokens += importance.size
    finally:
        graph.train(was_training)
    return ParityReport(worst_probs, worst_importance, num_tokens)


def _largest(difference: NDArray[np.float32]) -> float:
    return float(np.abs(difference).max(initial=0.0))
