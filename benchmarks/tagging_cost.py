"""What tagging costs beside the language model's own forward, in prefill and in decode.

The time of each forward and, within the same forward, the time from the position features to the
tags in the cache are taken together, so that other load on the machine falls on both. What a
token's text says is read beside the model; its CPU time is taken over generated traces, whole
conversations for prefill and replies token by token for decode:

    python benchmarks/tagging_cost.py --model smollm2 --tokens 2048 --decode 128

Without ``--classifier`` it is the packaged one or, for a model that has none, one of the same sizes
with random weights, which costs the same.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from memdecay.classifier.artifact import load_artifact, save_artifact
from memdecay.classifier.card import ClassifierCard
from memdecay.classifier.export import example_inputs
from memdecay.classifier.features import (
    NUM_POSITION_FEATURES,
    RULE_SCORES_COLUMN,
    FeatureLayout,
)
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.graph import TaggingGraph
from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.pretrained import pretrained_folder
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regions import RegionTable
from memdecay.classifier.rendering import render
from memdecay.classifier.tokenization import tokenize
from memdecay.data.generator import PACKAGED_SEED, generate_traces
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.hooks import ForwardStates, attach_memory, describe_by_position
from memdecay.runtime.reply_text import ReplyText
from memdecay.runtime.tagger import RegionTagger
from memdecay.training.config import NetworkSizes
from memdecay.training.pipeline import default_layer

REPLY_TOKENS = 200


@dataclass(slots=True)
class Cost:
    """Seconds of some forwards."""

    num_tokens: int = 0
    total_s: float = 0.0
    tagging_s: float = 0.0

    @property
    def llm_ms(self) -> float:
        """Milliseconds of the model's own for a token."""
        return 1000 * (self.total_s - self.tagging_s) / max(self.num_tokens, 1)

    @property
    def tagging_ms(self) -> float:
        """Milliseconds of the network for a token, from features to tags in the cache."""
        return 1000 * self.tagging_s / max(self.num_tokens, 1)


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


def text_costs(llm: LanguageModel, num_traces: int) -> tuple[float, float]:
    """Return the milliseconds that reading the text of a token takes: read whole, and written."""
    traces = [
        [message.to_openai() for message in trace.messages]
        for trace in generate_traces(num_traces, PACKAGED_SEED)
    ]
    return _read_ms(llm, traces), _written_ms(llm, traces)


def _read_ms(llm: LanguageModel, traces: list[list[dict[str, Any]]]) -> float:
    conversations = [tokenize(render(trace, llm.tokenizer), llm.tokenizer) for trace in traces]
    start = time.process_time()
    for conversation in conversations:
        conversation.text_features()
    spent = time.process_time() - start
    return 1000 * spent / sum(conversation.num_tokens for conversation in conversations)


def _written_ms(llm: LanguageModel, traces: list[list[dict[str, Any]]]) -> float:
    """Write a reply of `REPLY_TOKENS` to each conversation: what its longest message says."""
    spent, num_tokens = 0.0, 0
    for trace in traces:
        longest = max((str(message["content"]) for message in trace), key=len)
        ids = llm.tokenizer(longest, add_special_tokens=False)["input_ids"][:REPLY_TOKENS]
        reply = ReplyText(llm.tokenizer)
        start = time.process_time()
        for end in range(1, len(ids) + 1):
            reply.newest(trace, ids[:end])
        spent += time.process_time() - start
        num_tokens += len(ids)
    return 1000 * spent / num_tokens


def report(name: str, cost: Cost, text_ms: float) -> str:
    """Return one line with the model's time for a token and the shares of all that is beside it."""
    network, text = cost.tagging_ms / cost.llm_ms, text_ms / cost.llm_ms
    return (
        f"{name}: {cost.num_tokens} tokens, {cost.llm_ms:.3f} ms a token for the LLM; network "
        f"{cost.tagging_ms:.4f} ms ({network:.2%}), text {text_ms:.4f} ms ({text:.2%}), together "
        f"{network + text:.2%}"
    )


def total(costs: list[Cost]) -> Cost:
    """Add costs up."""
    return Cost(
        sum(cost.num_tokens for cost in costs),
        sum(cost.total_s for cost in costs),
        sum(cost.tagging_s for cost in costs),
    )


@contextmanager
def open_tagger(llm: LanguageModel, folder: Path | None) -> Iterator[RegionTagger]:
    """Open the classifier in a folder, the model's packaged one, or one with random weights."""
    folder = folder or pretrained_folder(llm.name)
    with tempfile.TemporaryDirectory() as temporary:
        if folder is None:
            folder = Path(temporary) / "classifier"
            export_random(llm, folder)
        yield RegionTagger(load_artifact(folder))


def export_random(llm: LanguageModel, folder: Path) -> None:
    """Export a classifier of the usual size with random weights."""
    network = NetworkConfig(
        hidden_size=llm.hidden_size,
        num_position_features=NUM_POSITION_FEATURES,
        rules_column=RULE_SCORES_COLUMN,
        **asdict(NetworkSizes()),
    )
    graph = TaggingGraph(network.build(), RegionTable(), PropagationConfig())
    layer = default_layer(llm.num_layers)
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
    parser.add_argument(
        "--traces", type=int, default=10, help="generated traces whose text is read"
    )
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
    prefill = total([cost for cost in costs[1:] if cost.num_tokens > 1])
    decode = total([cost for cost in costs if cost.num_tokens == 1])
    read_ms, written_ms = text_costs(llm, options.traces)
    print(report("prefill", prefill, read_ms))
    print(report("decode", decode, written_ms))


if __name__ == "__main__":
    main()
