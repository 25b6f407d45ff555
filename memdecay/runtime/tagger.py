"""Region tags for tokens: the exported classifier run by ONNX Runtime."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

import numpy as np
import onnxruntime
import torch
from torch import Tensor

from memdecay.classifier.artifact import ClassifierArtifact
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.graph import INPUT_NAMES, OUTPUT_NAMES, receptive_field
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.propagation import importance_of
from memdecay.classifier.regions import NUM_REGIONS, RegionTable

logger = logging.getLogger(__name__)

CUDA_PROVIDER = "CUDAExecutionProvider"
CPU_PROVIDER = "CPUExecutionProvider"
_ELEMENT_TYPES = {torch.float32: np.float32, torch.bool: np.bool_}


@dataclass(frozen=True, slots=True)
class Tags:
    """What the classifier says of each token.

    Attributes:
        region_probs: ``(batch, seq_len, num_regions)``, float32; they sum to 1.
        importance: ``(batch, seq_len)``, float32, after propagation; zero for padding.
    """

    region_probs: Tensor
    importance: Tensor


class RegionTagger:
    """Tags tokens from their hidden states and position features.

    On CUDA inputs and outputs are bound to torch's own memory, so that nothing passes through the
    host. On the CPU they are shared as arrays, which costs less for a few tokens than binding.

    Args:
        artifact: The classifier.
        device: ``cpu``, ``cuda``, ``cuda:N``, or ``auto`` for CUDA where ONNX Runtime and torch
            both have it. Where CUDA is asked for and missing, a warning says so and the CPU is
            used.
        region_table: Initial scores and decay factors in place of those that the classifier was
            exported with.

    Raises:
        ValueError: The device is none of these.
        ArtifactError: ONNX Runtime cannot open the graph.
    """

    def __init__(
        self,
        artifact: ClassifierArtifact,
        device: str = "auto",
        region_table: RegionTable | None = None,
    ) -> None:
        self.artifact = artifact
        self._own_table = region_table
        self.device, self._session = _open(artifact, device)

    @property
    def layer(self) -> int:
        """The LLM's hidden state that is read, see `FeatureLayout.layer`."""
        return self.artifact.card.feature_layout.layer

    @property
    def region_table(self) -> RegionTable:
        """Initial scores and decay factors: the given ones, or those of the card."""
        return self._own_table or self.artifact.card.region_table

    def check_llm(self, llm: LanguageModel) -> None:
        """Check that the classifier was trained on this language model.

        Raises:
            ArtifactError: It was trained on another one.
        """
        self.artifact.check_llm(
            llm_fingerprint(llm.model), llm.hidden_size, llm.num_layers, llm.name
        )

    @property
    def receptive_field(self) -> int:
        """How many tokens on each side can change a token's tags."""
        card = self.artifact.card
        return receptive_field(card.network.context_tokens, card.propagation.radius)

    def tag(
        self, hidden_states: Tensor, position_features: Tensor, token_mask: Tensor | None = None
    ) -> Tags:
        """Tag every token.

        Args:
            hidden_states: ``(batch, seq_len, hidden_size)``, any float type; batch and length may
                be zero.
            position_features: ``(batch, seq_len, num_position_features)``, any float type.
            token_mask: ``(batch, seq_len)``, bool; False marks padding. None means no padding.

        Returns:
            The tags, on the device of ``hidden_states``.

        Raises:
            ValueError: A shape does not fit the classifier or the other inputs.
        """
        if token_mask is None:
            token_mask = hidden_states.new_ones(hidden_states.shape[:2], dtype=torch.bool)
        self._check(hidden_states, position_features, token_mask)
        if not token_mask.numel():
            region_probs = self._empty(*token_mask.shape, NUM_REGIONS)
            importance = self._empty(*token_mask.shape)
        else:
            inputs = (
                self._own(hidden_states, torch.float32),
                self._own(position_features, torch.float32),
                self._own(token_mask, torch.bool),
            )
            run = self._run_bound if self.device.type == "cuda" else self._run
            region_probs, importance = run(inputs)
            if self._own_table is not None:
                # The graph's own importance has the exported scores in it.
                importance = importance_of(
                    region_probs, inputs[2], self._own_table, self.artifact.card.propagation
                )
        device = hidden_states.device
        return Tags(region_probs.to(device), importance.to(device))

    def _check(self, hidden_states: Tensor, position_features: Tensor, token_mask: Tensor) -> None:
        network = self.artifact.card.network
        shape = tuple(token_mask.shape)
        if len(shape) != 2:
            raise ValueError(f"token_mask must have the shape (batch, seq_len), got {shape}")
        for name, value, width in (
            ("hidden_states", hidden_states, network.hidden_size),
            ("position_features", position_features, network.num_position_features),
        ):
            if tuple(value.shape) != (*shape, width):
                raise ValueError(
                    f"{name} must have the shape {(*shape, width)}, got {tuple(value.shape)}"
                )

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=self.device)

    def _own(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        return value.detach().to(self.device, dtype).contiguous()

    def _run(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        arrays = {name: value.numpy() for name, value in zip(INPUT_NAMES, inputs, strict=True)}
        region_probs, importance = self._session.run(OUTPUT_NAMES, arrays)
        return torch.from_numpy(region_probs), torch.from_numpy(importance)

    def _run_bound(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        shape = inputs[2].shape
        outputs = self._empty(*shape, NUM_REGIONS), self._empty(*shape)
        binding = self._session.io_binding()
        for name, value in zip(INPUT_NAMES, inputs, strict=True):
            binding.bind_input(name, *_place(value))
        for name, value in zip(OUTPUT_NAMES, outputs, strict=True):
            binding.bind_output(name, *_place(value))
        # ONNX Runtime has a stream of its own, which does not wait for torch's.
        torch.cuda.current_stream(self.device).synchronize()
        self._session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return outputs


def _place(value: Tensor) -> tuple[str, int, type, list[int], int]:
    """Describe a tensor's memory as IO binding wants it."""
    return (
        value.device.type,
        value.device.index or 0,
        _ELEMENT_TYPES[value.dtype],
        list(value.shape),
        value.data_ptr(),
    )


def _open(
    artifact: ClassifierArtifact, device: str
) -> tuple[torch.device, onnxruntime.InferenceSession]:
    """Open the graph on the device that was asked for, or on the CPU."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {device!r}")
    if device != "cpu" and _has_cuda():
        session = artifact.open_session((CUDA_PROVIDER, CPU_PROVIDER))
        index = 0 if device == "auto" else torch.device(device).index or 0
        if index:
            session.set_providers([CUDA_PROVIDER, CPU_PROVIDER], [{"device_id": index}, {}])
        # ONNX Runtime quietly leaves out a provider whose libraries do not load.
        if CUDA_PROVIDER in session.get_providers():
            return torch.device("cuda", index), session
    if device.startswith("cuda"):
        logger.warning(
            "The tagger was asked to run on %s, but %s; it runs on the CPU. "
            "Install onnxruntime-gpu and a torch with CUDA to use the GPU.",
            device,
            _what_is_missing(),
        )
    return torch.device("cpu"), artifact.open_session((CPU_PROVIDER,))


def _has_cuda() -> bool:
    return CUDA_PROVIDER in onnxruntime.get_available_providers() and torch.cuda.is_available()


def _what_is_missing() -> str:
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    if CUDA_PROVIDER not in onnxruntime.get_available_providers():
        return "this ONNX Runtime has no CUDA provider"
    return "ONNX Runtime could not load its CUDA libraries"
