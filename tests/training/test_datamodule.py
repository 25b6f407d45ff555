import numpy as np
import pytest

from memdecay.training.config import TrainingConfig
from memdecay.training.datamodule import RegionDataModule
from tests.training.windows import ListSource, learnable_source


def make_datamodule(source: ListSource, epoch_tokens: int) -> RegionDataModule:
    parts = {"train": range(4), "validation": range(4, 8), "test": range(8, 10)}
    config = TrainingConfig(chunk_tokens=8, batch_chunks=2, epoch_tokens=epoch_tokens)
    return RegionDataModule(source, parts, config)


@pytest.fixture
def source() -> ListSource:
    return learnable_source(10, 6, 2)


def test_a_pass_draws_a_share_of_the_tokens_and_another_one_each_time(source: ListSource) -> None:
    loader = make_datamodule(source, epoch_tokens=48).train_dataloader()
    drawn = []
    for epoch in (0, 1, 0):
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        drawn.append(list(loader.sampler))
    assert len(loader) == 3
    assert [len(set(chunks)) for chunks in drawn] == [6, 6, 6]
    assert drawn[0] == drawn[2] != drawn[1]


def test_half_as_many_validation_tokens_are_looked_at_and_all_test_tokens(
    source: ListSource,
) -> None:
    datamodule = make_datamodule(source, epoch_tokens=48)
    assert len(datamodule.val_dataloader().dataset) == 3  # type: ignore[arg-type]
    num_chunks = sum(-(-source.num_tokens(index) // 8) for index in (8, 9))
    assert len(datamodule.test_dataloader().dataset) == num_chunks  # type: ignore[arg-type]


def test_few_tokens_are_all_drawn(source: ListSource) -> None:
    loader = make_datamodule(source, epoch_tokens=1_000_000).train_dataloader()
    assert sorted(loader.sampler) == list(range(len(loader.dataset)))  # type: ignore[arg-type]


def test_statistics_are_those_of_the_labelled_training_tokens(source: ListSource) -> None:
    means, deviations = make_datamodule(source, epoch_tokens=48).feature_statistics()
    windows = source.windows[:4]
    features = np.concatenate([w.position_features[w.labels >= 0] for w in windows])
    np.testing.assert_allclose(means, features.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(deviations, features.std(axis=0), rtol=1e-4)
