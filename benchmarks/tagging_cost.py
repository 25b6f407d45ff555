"""What tagging costs beside the language model's own forward, in prefill and in decode.

The time of each forward and, within the same forward, the time from the position features to the
tags in the cache are taken together, so that other load on the machine falls on both:

    python benchmarks/tagging_cost.py --model smollm2 --tokens 2048 --decode 128

Without ``--classifier`` a classifier with random weights is exported; it costs what a trained one
costs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from memdecay.classifier.artifact import load_artifact, save_artifact
from memdecay.classifier.card import ClassifierCard
from memdecay.classifier.export import example_inputs
from memdecay.classifier.features import NUM_POSITION_FEATURES, FeatureLayout
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.graph import TaggingGraph
from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import RegionTable
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.hooks import ForwardStates, attach_memory, describe_by_position
from memdecay.runtime.tagger import RegionTagger


@dataclass(slots=True)
class Cost:
    """Seconds of some forwards."""

    num_tokens: int = 0
    total_s: float = 0.0
    tagging_s: float = 0.0

    def __str__(self) -> str:
        llm_s = self.total_s - self.tagging_s
        per_token = 1000 / max(self.num_tokens, 1)
        return (
            f"{self.num_tokens} tokens, {llm_s * per_token:.3f} ms a token for the LLM, "
            f"{self.tagging_s * per_token:.3f} ms for tagging: {self.tagging_s / llm_s:.2%}"
        )


class TimedCache(DecayCache):
    """A cache that notes when it got the tags."""

    tagging_ends_s = 0.0

    def set_tags(self, start: int, importance: Tensor, region_probs: Tensor) -> None:
        """Set the tags and note the time."""
        super().set_tags(start, importance, region_probs)
        self.tagging_ends_s = _now()


class TimedDescription:
    """Position features, noting when they were asked for: tagging begins there."""

    begins_s = 0.0

    def __call__(self, states: ForwardStates) -> Tensor:
        """Note the time and return the features."""
        self.begins_s = _now()
        return describe_by_position(states)


def measure(
    llm: LanguageModel, tagger: RegionTagger, budget: int, sizes: list[int]
) -> Iterator[Cost]:
    """Run one forward of each size after the other and yield what it cost."""
    cache = TimedCache(llm.model.config, CacheConfig(budget))
    describe = TimedDescription()
    generator = torch.Generator().manual_seed(0)
    vocab_size = llm.model.config.get_text_config().vocab_size
    with torch.inference_mode(), attach_memory(llm.model, cache, tagger, describe):
        for size in sizes:
            ids = torch.randint(vocab_size, (1, size), generator=generator).to(llm.device)
            start = _now()
            llm.model(input_ids=ids, cache=cache, logits_to_keep=1)
            yield Cost(size, _now() - start, cache.tagging_ends_s - describe.begins_s)


def total(costs: list[Cost]) -> Cost:
    """Add costs up."""
    return Cost(
        sum(cost.num_tokens for cost in costs),
        sum(cost.total_s for cost in costs),
        sum(cost.tagging_s for cost in costs),
    )


@contextmanager
def open_tagger(llm: LanguageModel, folder: Path | None) -> Iterator[RegionTagger]:
    """Open the classifier in a folder, or one with random weights."""
    with tempfile.TemporaryDirectory() as temporary:
        if folder is None:
            folder = Path(temporary) / "classifier"
            export_random(llm, folder)
        yield RegionTagger(load_artifact(folder))


def export_random(llm: LanguageModel, folder: Path) -> None:
    """Export a classifier of the usual size with random weights."""
    network = NetworkConfig(llm.hidden_size, NUM_POSITION_FEATURES)
    graph = TaggingGraph(network.build(), RegionTable(), PropagationConfig())
    layer = llm.num_layers // 2
    card = ClassifierCard(
        llm_name=llm.name,
        llm_fingerprint=llm_fingerprint(llm.model),
        feature_layout=FeatureLayout(layer, llm.hidden_size),
        network=network,
        region_table=RegionTable(),
        propagation=graph.propagation,
        temperature=1.0,
    )
    sample = example_inputs(graph, 1, 16, torch.Generator().manual_seed(0))
    save_artifact(folder, graph, card, [sample])


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--classifier", type=Path, help="a classifier folder for this model")
    parser.add_argument("--tokens", type=int, default=2048, help="tokens read in chunks")
    parser.add_argument("--chunk", type=int, default=128, help="tokens of a chunk")
    parser.add_argument("--decode", type=int, default=128, help="tokens decoded one by one")
    parser.add_argument("--budget", type=int, default=1024, help="tokens that the cache keeps")
    parser.add_argument("--threads", type=int, help="torch's threads")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = _options()
    if options.threads:
        torch.set_num_threads(options.threads)
    llm = load_llm(options.model)
    sizes = [options.chunk] * (options.tokens // options.chunk) + [1] * options.decode
    with open_tagger(llm, options.classifier) as tagger:
        costs = list(measure(llm, tagger, options.budget, sizes))
    # The first forward also pays for buffers and for ONNX Runtime's first run.
    print("prefill:", total([cost for cost in costs[1:] if cost.num_tokens > 1]))
    print("decode: ", total([cost for cost in costs if cost.num_tokens == 1]))


if __name__ == "__main__":
    main()
