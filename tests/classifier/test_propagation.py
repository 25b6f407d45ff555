import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.propagation import (
    PropagationConfig,
    expected_importance,
    initial_scores_tensor,
    propagate_importance,
    source_strength,
)
from memdecay.classifier.regions import Region, RegionTable

SCORES = torch.tensor([100.0, 10.0, 5.0, 2.0, 1.0])


def one_hot(regions: list[Region]) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor([regions]), len(Region)).float()


def reference(
    importance: list[float], strength: list[float], config: PropagationConfig
) -> list[float]:
    raised = []
    for i, own in enumerate(importance):
        best = own
        for j, source in enumerate(strength):
            if abs(i - j) <= config.radius:
                best = max(best, config.attenuation ** abs(i - j) * source)
        raised.append(best)
    return raised


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), max_size=40),
    radius=st.integers(0, 5),
    attenuation=st.floats(0.05, 1.0),
)
def test_propagation_equals_the_formula(
    rows: list[tuple[float, float]], radius: int, attenuation: float
) -> None:
    config = PropagationConfig(radius, attenuation)
    importance, strength = [row[0] for row in rows], [row[1] for row in rows]
    raised = propagate_importance(torch.tensor([importance]), torch.tensor([strength]), config)
    expected = torch.tensor([reference(importance, strength, config)])
    torch.testing.assert_close(raised, expected)


def test_tokens_near_a_decision_are_raised_and_far_ones_are_not() -> None:
    regions = [Region.ORDINARY_CONTEXT] * 9
    regions[4] = Region.KEY_DECISION
    probs = one_hot(regions)
    raised = propagate_importance(
        expected_importance(probs, SCORES),
        source_strength(probs, SCORES),
        PropagationConfig(radius=3, attenuation=0.5),
    )
    torch.testing.assert_close(
        raised, torch.tensor([[1.0, 1.25, 2.5, 5.0, 10.0, 5.0, 2.5, 1.25, 1.0]])
    )


@pytest.mark.parametrize(
    "region", [Region.SYSTEM_INSTRUCTION, Region.RECENT_DIALOGUE, Region.ORDINARY_CONTEXT]
)
def test_other_regions_raise_nobody(region: Region) -> None:
    assert source_strength(one_hot([region]), SCORES).item() == 0.0


def test_strength_never_exceeds_importance() -> None:
    probs = torch.rand(4, 50, len(Region)).softmax(dim=-1)
    assert (source_strength(probs, SCORES) <= expected_importance(probs, SCORES)).all()


@pytest.mark.parametrize(
    ("radius", "attenuation", "message"),
    [(-1, 0.5, "radius"), (3, 0.0, "attenuation"), (3, 1.5, "attenuation")],
)
def test_bad_settings_are_refused(radius: int, attenuation: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PropagationConfig(radius, attenuation)


def test_initial_scores_are_the_table_s_in_the_regions_order() -> None:
    table = RegionTable()
    scores = initial_scores_tensor(table)
    assert scores.tolist() == pytest.approx([table[region].initial_score for region in Region])
