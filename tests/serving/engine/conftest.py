"""Models and classifiers for the engine's tests, made once."""

from __future__ import annotations

import pytest

from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.tagger import RegionTagger
from tests.runtime.artifacts import random_artifact
from tests.serving.engine.rig import tiny_llm


@pytest.fixture(scope="session")
def llm() -> LanguageModel:
    return tiny_llm()


@pytest.fixture(scope="session")
def tagger(llm: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> RegionTagger:
    folder = tmp_path_factory.mktemp("engine") / "classifier"
    return RegionTagger(random_artifact(folder, fingerprint=llm_fingerprint(llm.model)), "cpu")
