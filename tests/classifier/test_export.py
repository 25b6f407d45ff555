from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.errors import ArtifactError
from memdecay.classifier.export import (
    PARITY_TOLERANCE,
    check_parity,
    example_inputs,
    export_onnx,
    onnx_session,
    run_session,
)
from memdecay.classifier.graph import TaggingGraph, receptive_field
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import RegionTable

CPU = ["CPUExecutionProvider"]


def make_graph(temperature: float = 1.7) -> TaggingGraph:
    torch.manual_seed(0)
    network = NetworkConfig(hidden_size=24, num_position_features=5, context_tokens=4).build()
    return TaggingGraph(network, RegionTable(), PropagationConfig(), temperature).eval()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[TaggingGraph, Path]:
    graph = make_graph()
    path = tmp_path_factory.mktemp("export") / "classifier.onnx"
    export_onnx(graph, path)
    return graph, path


def test_the_file_names_no_folder_of_this_machine(exported: tuple[TaggingGraph, Path]) -> None:
    content = exported[1].read_bytes()
    assert str(Path(__file__).parents[2]).encode() not in content
    assert b".py" not in content


@settings(deadline=None, max_examples=40)
@given(batch=st.integers(1, 4), seq_len=st.integers(0, 200), seed=st.integers(0, 10_000))
def test_onnx_runtime_agrees_with_torch_at_any_shape(
    exported: tuple[TaggingGraph, Path], batch: int, seq_len: int, seed: int
) -> None:
    graph, path = exported
    inputs = example_inputs(graph, batch, seq_len, torch.Generator().manual_seed(seed))
    with torch.inference_mode():
        expected_probs, expected_importance = graph(*inputs)
    region_probs, importance = run_session(onnx_session(path, CPU), inputs)
    torch.testing.assert_close(
        torch.from_numpy(region_probs), expected_probs, atol=PARITY_TOLERANCE, rtol=0
    )
    torch.testing.assert_close(
        torch.from_numpy(importance), expected_importance, atol=PARITY_TOLERANCE, rtol=0
    )


def test_parity_report_sees_a_difference(exported: tuple[TaggingGraph, Path]) -> None:
    graph, path = exported
    inputs = [example_inputs(graph, 2, 30, torch.Generator().manual_seed(1))]
    assert check_parity(graph, path, inputs).is_equal
    assert not check_parity(make_graph(temperature=1.9), path, inputs).is_equal


def test_parity_check_leaves_the_mode_as_it_was(exported: tuple[TaggingGraph, Path]) -> None:
    graph, path = exported
    graph.train()
    try:
        check_parity(graph, path, [example_inputs(graph, 1, 3, torch.Generator())])
        assert graph.training
    finally:
        graph.eval()


def test_padding_gets_no_importance_and_passes_none_on() -> None:
    graph = make_graph()
    hidden, position, _ = example_inputs(graph, 1, 20, torch.Generator().manual_seed(2))
    mask = torch.ones(1, 20, dtype=torch.bool)
    mask[:, :8] = False
    _, alone = graph(hidden[:, 8:], position[:, 8:], mask[:, 8:])
    _, padded = graph(hidden, position, mask)
    assert (padded[:, :8] == 0).all()
    torch.testing.assert_close(padded[:, 8:], alone)


def test_no_token_beyond_the_receptive_field_matters() -> None:
    graph = make_graph()
    reach = receptive_field(4, 3)
    hidden, position, mask = example_inputs(graph, 1, 60, torch.Generator().manual_seed(3))
    mask[:] = True
    changed = hidden.clone()
    changed[0, 30] *= -3.0
    before, after = graph(hidden, position, mask), graph(changed, position, mask)
    moved = (before[1] - after[1])[0].nonzero().flatten()
    assert moved.min() >= 30 - reach
    assert moved.max() <= 30 + reach


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "classifier.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(ArtifactError, match="cannot be opened as an ONNX model"):
        onnx_session(path, CPU)


def test_temperature_must_be_positive() -> None:
    with pytest.raises(ValueError, match="temperature must be above 0"):
        make_graph(temperature=0.0)
