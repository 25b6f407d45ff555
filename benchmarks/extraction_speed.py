"""Compare the speed of hidden-state extraction with that of the bare forward pass.

Both run over the same tokens in the same chunks; the bare forward keeps nothing. It is timed twice:
for the decoder up to the chosen layer (what extraction runs) and for the whole decoder.

    python benchmarks/extraction_speed.py --tokens 4096 --model smollm2
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import DynamicCache

from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.data.backbone import decoder_up_to
from memdecay.data.extraction import ExtractionConfig, extract
from memdecay.data.preparation import PreparedTrace, prepare_trace
from memdecay.data.trace import Message, Trace

SENTENCE = "The tool answers that order 4711 has left the warehouse and arrives on Friday. "


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured."""

    model: str
    layer: int | None
    tokens: int
    window_tokens: int
    chunk_tokens: int
    repeats: int
    dtype: str
    device: str


def main() -> None:
    """Print tokens per second of each, and the two ratios."""
    options = parse_options()
    llm = load_llm(options.model, options.dtype, options.device)
    layer = llm.num_layers // 2 if options.layer is None else options.layer
    traces = make_traces(llm, options)
    prepared = [prepare_trace(trace, llm.tokenizer, options.window_tokens) for trace in traces]
    num_tokens = sum(trace.report.num_tokens for trace in prepared)
    chunk = options.chunk_tokens
    # Interleaved, so that other load on the machine meets all three alike.
    extraction, truncated, full = [], [], []
    for _ in range(options.repeats):
        extraction.append(timed(lambda: extract_all(traces, llm, layer, options), llm))
        truncated.append(timed(lambda: forward_all(prepared, llm, layer, chunk), llm))
        full.append(timed(lambda: forward_all(prepared, llm, llm.num_layers - 1, chunk), llm))
    print(f"{options.model}, layer {layer} of {llm.num_layers}, {llm.dtype}, {llm.device}")
    print(f"{num_tokens} tokens in chunks of {chunk}, best of {options.repeats}")
    for name, seconds in (
        ("extraction", extraction),
        (f"forward up to layer {layer}", truncated),
        ("forward, all layers", full),
    ):
        print(f"{name:>24}: {num_tokens / min(seconds):10.0f} tokens/s")
    print(f"extraction / forward up to layer {layer}: {min(truncated) / min(extraction):.2f}")
    print(f"extraction / forward, all layers: {min(full) / min(extraction):.2f}")


def parse_options() -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2", help="name, folder or hub id")
    parser.add_argument("--layer", type=int, help="layer to extract; default: the middle one")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens in all, about")
    parser.add_argument("--window-tokens", type=int, default=2048, help="tokens of one sequence")
    parser.add_argument("--chunk-tokens", type=int, default=512, help="tokens of one forward")
    parser.add_argument("--repeats", type=int, default=3, help="the fastest one counts")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    return Options(**vars(parser.parse_args()))


def make_traces(llm: LanguageModel, options: Options) -> list[Trace]:
    """Return conversations of nearly a window each, with about the asked number of tokens."""
    tokens_a_sentence = len(llm.tokenizer(SENTENCE, add_special_tokens=False)["input_ids"])
    length = min(options.tokens, options.window_tokens)
    num_sentences = max(1, (length - 64) // tokens_a_sentence)
    return [
        Trace(f"benchmark {index}", (Message("user", SENTENCE * num_sentences),))
        for index in range(max(1, round(options.tokens / length)))
    ]


def extract_all(traces: list[Trace], llm: LanguageModel, layer: int, options: Options) -> None:
    """Extract into a folder that is deleted afterwards."""
    config = ExtractionConfig(options.chunk_tokens, options.window_tokens)
    with tempfile.TemporaryDirectory() as folder:
        extract(traces, llm, layer, folder, config)


@torch.inference_mode()
def forward_all(
    prepared: list[PreparedTrace], llm: LanguageModel, layer: int, chunk_tokens: int
) -> None:
    """Run the decoder up to a layer over every window, keeping nothing."""
    with decoder_up_to(llm.model, layer) as (decoder, _):
        for trace in prepared:
            for window in trace.windows:
                input_ids = torch.from_numpy(trace.tokens.input_ids[window.start : window.end])
                cache = DynamicCache(config=llm.model.config)
                for chunk in input_ids[None].to(llm.device).split(chunk_tokens, dim=1):
                    decoder(input_ids=chunk, cache=cache, use_cache=True)


def timed(work: Callable[[], None], llm: LanguageModel) -> float:
    """Return the seconds that some work takes, the device's included."""
    start = time.perf_counter()
    work()
    if llm.device.type == "cuda":
        torch.cuda.synchronize(llm.device)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
