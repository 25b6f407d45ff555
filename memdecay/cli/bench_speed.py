"""`memdecay bench speed`: what the cache costs in time and memory beside transformers' own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.errors import ConfigError, ModelError
from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.classifier.pretrained import DEFAULT_NAME, classifier_folder, pretrained_folder
from memdecay.classifier.storage import check_writable
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bar
from memdecay.cli.options import DeviceOption, DtypeOption, ModelOption, option_errors
from memdecay.runtime.bench.caches.variants import MODIFIERS, Variant, parse_variant
from memdecay.runtime.bench.speed.config import SpeedConfig
from memdecay.runtime.bench.speed.contestants import Lineup
from memdecay.runtime.bench.speed.report import (
    speed_table,
    write_speed_report,
    write_speed_results,
)
from memdecay.runtime.bench.speed.run import SpeedBenchmark
from memdecay.runtime.bench.speed.stand_ins import random_classifier, random_head, random_llm
from memdecay.runtime.foresight.packaged import packaged_head
from memdecay.runtime.policies import POLICIES
from memdecay.runtime.tagger import RegionTagger

_DEFAULTS = SpeedConfig()
EPILOG = f"""
A policy is one of {", ".join(POLICIES)}; [bold]policy@none[/bold] does without the classifier,
[bold]policy+change[/bold] leaves something out ({", ".join(MODIFIERS)}).

[bold]Examples[/bold]

memdecay bench speed --seen 1024,4096 --out runs/speed

memdecay bench speed --random-weights benchmarks/configs/llama-8b.json --device cuda --out runs/8b
"""


def speed(
    out: Annotated[Path, typer.Option("--out", help="Folder for results, tables and plots.")],
    policies: Annotated[
        str,
        typer.Option("--policies", help="What stands beside DynamicCache, separated by commas."),
    ] = "full,memdecay+no-fading,memdecay",
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            help="Tokens at full precision that a cache may hold, or, written with a point, their "
            "share of the tokens seen.",
        ),
    ] = str(_DEFAULTS.budget),
    seen: Annotated[
        str, typer.Option("--seen", help="Tokens seen when decoding is timed, with commas.")
    ] = ",".join(map(str, _DEFAULTS.seen)),
    steps: Annotated[
        int, typer.Option("--steps", min=1, help="Decode steps timed for each cache.")
    ] = _DEFAULTS.num_steps,
    chunk: Annotated[
        int, typer.Option("--chunk", min=1, help="Most tokens of one forward while reading.")
    ] = _DEFAULTS.chunk_tokens,
    num_recent: Annotated[
        int, typer.Option("--num-recent", min=0, help="Newest tokens never evicted.")
    ] = _DEFAULTS.num_recent,
    classifier: Annotated[
        str | None,
        typer.Option(
            "--classifier",
            help=f"A classifier folder, or [bold]{DEFAULT_NAME}[/bold] for the packaged one. Left "
            "out, a model without a packaged one gets one with random weights, which costs the "
            "same.",
        ),
    ] = None,
    random_weights: Annotated[
        Path | None,
        typer.Option(
            "--random-weights",
            help="Build the model from this config (JSON file or folder) with random weights, in "
            "place of --model.",
            rich_help_panel="Model",
        ),
    ] = None,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    kv_dtype: Annotated[
        str,
        typer.Option(
            "--kv-dtype",
            help="What the caches under test store at full precision: float32, bfloat16, float16, "
            "or auto for the model's own.",
            rich_help_panel="Model",
        ),
    ] = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Measure what the cache costs in time and memory, beside transformers' DynamicCache.

    All caches read the same random tokens and decode in turns within one run, so read the ratios:
    a busy machine slows all of them alike.
    """
    with option_errors():
        speed_config = SpeedConfig(
            seen=_numbers(seen),
            budget=_budget(budget),
            num_steps=steps,
            chunk_tokens=chunk,
            num_recent=num_recent,
            kv_dtype=None if kv_dtype == "auto" else kv_dtype,
        )
    variants = _variants(policies)
    check_writable(out, is_folder=True)
    if random_weights is None:
        llm = load_llm(model, dtype, device)
    else:
        llm = random_llm(random_weights, dtype, device)
    # Where none is packaged, one with random weights costs the same, as with the classifier.
    head = packaged_head(llm.name) or random_head(llm)
    with _tagger(classifier, llm, variants) as tagger, _memory_errors(llm):
        benchmark = SpeedBenchmark(Lineup(llm, variants, speed_config, tagger, head))
        with progress_bar(f"{1 + len(variants)} caches", "tokens") as progress:
            rows = benchmark.run(
                progress,
                lambda rows: write_speed_results(
                    out, rows, speed_config, llm, benchmark.preparation_s
                ),
            )
    report = write_speed_report(out, rows, speed_config, llm, benchmark.preparation_s)
    console = output_console()
    console.print(speed_table(rows))
    console.print(f"Report: {report}")


def _variants(policies: str) -> tuple[Variant, ...]:
    names = dict.fromkeys(name.strip() for name in policies.split(",") if name.strip())
    if not names:
        raise ConfigError("--policies names nothing; give names separated by commas")
    variants = tuple(parse_variant(name) for name in names)
    for variant in variants:
        if variant.is_headwise or variant.tags not in (None, "none", "classifier"):
            raise ConfigError(
                f"bench speed can't time {variant.name}: it takes policies of the product, with "
                "tags from the classifier or none"
            )
    return variants


def _numbers(seen: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(text) for text in seen.split(",") if text.strip()}))
    except ValueError as error:
        raise ConfigError(f"--seen takes whole numbers with commas, got {seen!r}") from error


def _budget(text: str) -> int | float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise ConfigError(
            f"--budget takes a number of tokens such as 1024, or a share such as 0.125, got "
            f"{text!r}"
        ) from error


@contextmanager
def _tagger(
    classifier: str | None, llm: LanguageModel, variants: tuple[Variant, ...]
) -> Iterator[RegionTagger | None]:
    """Open the classifier that was given, the packaged one, or one with random weights."""
    if all(variant.tags == "none" for variant in variants):
        yield None
        return
    with tempfile.TemporaryDirectory() as temporary:
        if classifier is not None:
            artifact = load_artifact(classifier_folder(Path(classifier), llm.name))
        elif (folder := pretrained_folder(llm.name)) is not None:
            artifact = load_artifact(folder)
        else:
            artifact = random_classifier(llm, Path(temporary) / "classifier")
        tagger = RegionTagger(artifact, llm.device.type)
        tagger.check_llm(llm)
        yield tagger


@contextmanager
def _memory_errors(llm: LanguageModel) -> Iterator[None]:
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ModelError(
            f"{llm.name} and its caches do not fit the memory of {llm.device}; give fewer "
            "--policies or smaller numbers for --seen"
        ) from error
