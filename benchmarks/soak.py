"""Run a thousand turns with random lengths, tool dumps and evictions, twice, and say what grew.

The model is tiny and random: what is tried is the cache's bookkeeping, not the model. After each
turn the cache's books are checked against its buffers; a contradiction ends the run.

    python benchmarks/soak.py --turns 1000
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from memdecay.classifier.decoder import find_decoder
from memdecay.runtime.bench.soak.memory import Look
from memdecay.runtime.bench.soak.run import soak
from memdecay.runtime.bench.soak.workload import Agent, TurnConfig, state_of
from memdecay.runtime.cache import DecayCache
from memdecay.runtime.config import CacheConfig, FadingConfig
from memdecay.runtime.precision.rotary import RotaryFrequencies

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Options:
    """How long the runs are."""

    turns: int
    warm_up: int
    budget: int
    seed: int


def main() -> int:
    """Print what was seen, kept and grown; return 1 where the two runs end in different states."""
    options = parse_options()
    torch.set_num_threads(1)
    model = tiny_model()
    agent = new_agent(model, options)
    started = time.perf_counter()
    report = soak(agent, options.turns, options.warm_up, progress)
    print(
        f"\n{options.turns} turns in {time.perf_counter() - started:.0f} s, books sound after each"
    )
    print(
        f"tokens: {report.tokens_seen:,} seen, {report.tokens_kept} kept, {report.tokens_faded} "
        f"of them faded; peak {report.peak_share:.1%} of the budget's bytes"
    )
    print_growth(report.warm, report.end, options.warm_up)
    print(
        f"of the tensors {report.remembered_bytes / MIB:.3f} MiB are the tokens' fates, which are "
        f"kept; {report.tensor_growth / MIB:+.3f} MiB is the rest"
    )
    second = new_agent(model, options)
    for turn in range(1, options.turns + 1):
        second.turn()
        progress(turn)
    is_same = all(
        torch.equal(first.nan_to_num(nan=-1.0), again.nan_to_num(nan=-1.0))
        for first, again in zip(state_of(agent), state_of(second), strict=True)
    )
    print(f"\nthe second run ends in {'the same' if is_same else 'ANOTHER'} state, bit by bit")
    return 0 if is_same else 1


def parse_options() -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--warm-up", type=int, default=200, help="turns before the first look")
    parser.add_argument("--budget", type=int, default=96, help="tokens at full precision")
    parser.add_argument("--seed", type=int, default=1)
    return Options(**vars(parser.parse_args()))


def tiny_model() -> PreTrainedModel:
    """Return a random Llama of three layers in float32."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
        max_position_embeddings=1024,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def new_agent(model: PreTrainedModel, options: Options) -> Agent:
    """Return an agent with an empty cache that fades and evicts soon."""
    cache_config = CacheConfig(
        options.budget,
        num_sinks=2,
        num_recent=8,
        fading=FadingConfig(steps=(4, 2), num_exact=6, room_share=0.3),
    )
    frequencies = RotaryFrequencies.of(find_decoder(model))
    cache = DecayCache(model.config, cache_config, frequencies=frequencies)
    return Agent(model, cache, TurnConfig(), options.seed)


def progress(turn: int) -> None:
    """Show every hundredth turn."""
    if turn % 100 == 0:
        print(f"\r{turn} turns", end="", file=sys.stderr, flush=True)


def print_growth(warm: Look, end: Look, warm_up: int) -> None:
    """Print the memory after the warm-up, at the end, and the difference."""
    print(f"memory in MiB: after {warm_up} turns, at the end, grown")
    for name in ("tensors", "python", "process"):
        first, last = getattr(warm, name) / MIB, getattr(end, name) / MIB
        print(f"{name:>10}: {first:10.3f} {last:10.3f} {last - first:+10.3f}")


if __name__ == "__main__":
    sys.exit(main())
