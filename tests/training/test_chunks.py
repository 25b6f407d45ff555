import numpy as np
import pytest
import torch

from memdecay.classifier.network import NetworkConfig
from memdecay.training.chunks import UNLABELLED, ChunkDataset, collate
from tests.training.windows import learnable_source


@pytest.mark.parametrize("chunk_tokens", [1, 7, 64, 1000])
def test_each_labelled_token_stands_in_exactly_one_chunk(chunk_tokens: int) -> None:
    source = learnable_source(4, 6, 2)
    dataset = ChunkDataset(source, [0, 2, 3], chunk_tokens, context_tokens=5)
    seen = np.concatenate([dataset[i].labels for i in range(len(dataset))])
    expected = np.concatenate([source.window(i).labels for i in (0, 2, 3)])
    assert np.array_equal(
        np.bincount(seen[seen != UNLABELLED]), np.bincount(expected[expected != UNLABELLED])
    )


def test_some_of_the_chunks_are_drawn_evenly() -> None:
    source = learnable_source(4, 6, 2)
    every = ChunkDataset(source, range(4), 8, context_tokens=0)
    some = ChunkDataset(source, range(4), 8, context_tokens=0, max_chunks=5)
    places = np.linspace(0, len(every) - 1, 5).astype(int)
    assert len(some) == 5
    for index, place in enumerate(places.tolist()):
        np.testing.assert_array_equal(some[index].labels, every[place].labels)
    assert len(ChunkDataset(source, range(4), 8, 0, max_chunks=10_000)) == len(every)


def test_logits_of_chunks_equal_those_of_the_whole_window() -> None:
    source = learnable_source(1, 6, 2)
    network = NetworkConfig(6, 2, context_tokens=4).build().eval()
    whole = collate([source.window(0)])
    dataset = ChunkDataset(source, [0], chunk_tokens=9, context_tokens=4)
    batch = collate([dataset[i] for i in range(len(dataset))])
    with torch.inference_mode():
        expected = network(*whole[:3])[whole.labels != UNLABELLED]
        chunked = network(*batch[:3])[batch.labels != UNLABELLED]
    torch.testing.assert_close(chunked, expected)


def test_padding_is_masked_and_unlabelled() -> None:
    source = learnable_source(3, 6, 2)
    batch = collate([source.window(i) for i in range(3)])
    lengths = torch.tensor([source.num_tokens(i) for i in range(3)])
    assert torch.equal(batch.token_mask.sum(dim=1), lengths)
    assert (batch.labels[~batch.token_mask] == UNLABELLED).all()
    assert (batch.hidden_states[~batch.token_mask] == 0).all()
