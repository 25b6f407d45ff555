import numpy as np

from memdecay.classifier.features import NUM_POSITION_FEATURES, POSITION_FEATURE_NAMES
from memdecay.training.chunks import UNLABELLED
from memdecay.training.windows import JoinedWindows, SupplementWindows
from tests.training.windows import ListSource, learnable_source

RESULT = POSITION_FEATURE_NAMES.index("speaker_result")


def source_with_results() -> ListSource:
    source = learnable_source(3, 4, NUM_POSITION_FEATURES)
    for window in source.windows:
        window.position_features[:, RESULT] = np.arange(len(window.labels)) % 2
    return source


def test_what_tools_return_in_generated_traces_is_unlabelled() -> None:
    source = source_with_results()
    supplement = SupplementWindows(source)
    assert len(supplement) == 3
    for index, expected in enumerate(source.windows):
        assert supplement.num_tokens(index) == source.num_tokens(index)
        found = supplement.window(index)
        assert (found.labels[1::2] == UNLABELLED).all()
        np.testing.assert_array_equal(found.labels[::2], expected.labels[::2])
        np.testing.assert_array_equal(found.hidden_states, expected.hidden_states)


def test_joined_windows_are_those_of_one_source_and_then_the_other() -> None:
    first, second = learnable_source(2, 4, 3), learnable_source(3, 4, 3, seed=1)
    joined = JoinedWindows(first, second)
    assert len(joined) == 5
    for index, window in enumerate([*first.windows, *second.windows]):
        assert joined.window(index) is window
        assert joined.num_tokens(index) == len(window.labels)
