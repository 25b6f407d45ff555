"""`memdecay plan`: what of a trace a serving engine should keep, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.llm import load_llm
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.rendering import render
from memdecay.classifier.tokenization import TokenizedConversation, tokenize
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.options import (
    DeviceOption,
    DtypeOption,
    IdOption,
    IndexOption,
    ModelOption,
    option_errors,
)
from memdecay.cli.tagger import RegionsOption, load_regions
from memdecay.cli.traces import pick_trace
from memdecay.retention import PlanConfig, ScoreConfig, plan_retention, region_spans
from memdecay.runtime.rule_tagger import RuleTagger
from memdecay.runtime.tagging import Reading

_DEFAULTS = PlanConfig()
EPILOG = """
[bold]Examples[/bold]

memdecay plan --trace traces.jsonl --block-size 16 > plan.json

memdecay plan --trace traces.jsonl --block-size 64 --budget 4096 --tokens-per-second 40 --pin 0
"""


def plan(
    trace: Annotated[Path, typer.Option("--trace", help="File of traces (JSONL).")],
    index: IndexOption = 0,
    trace_id: IdOption = None,
    block_size: Annotated[
        int, typer.Option("--block-size", help="Tokens of the engine's blocks.")
    ] = _DEFAULTS.block_size,
    budget: Annotated[
        int | None, typer.Option("--budget", help="Tokens to keep; without it all are ranked.")
    ] = None,
    num_recent: Annotated[
        int, typer.Option("--num-recent", help="Newest tokens that a budget may not touch.")
    ] = _DEFAULTS.num_recent,
    tokens_per_second: Annotated[
        float | None,
        typer.Option(
            "--tokens-per-second",
            help="How fast the conversation goes on; without it there are no times to live.",
        ),
    ] = None,
    pin: Annotated[
        list[int] | None,
        typer.Option("--pin", help="Message to keep for good, from 0; may be given several times."),
    ] = None,
    regions: RegionsOption = None,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Print which ranges of a trace's tokens an engine should keep, and for how long.

    Regions come from the rules. Ranges of blocks have a priority from 0 to 100 and, where the rate
    is known, a time in which it holds; KvCacheRetentionConfig of TensorRT-LLM takes them as they
    are.
    """
    settings = load_regions(regions) or RegionSettings()
    with option_errors():
        plan_config = PlanConfig(
            score=ScoreConfig(settings),
            block_size=block_size,
            num_recent=num_recent,
            budget_tokens=budget,
            tokens_per_second=tokens_per_second,
        )
    chosen = pick_trace(trace, trace_id, index)
    messages = [message.to_openai() for message in chosen.messages]
    llm = load_llm(model, dtype, device)
    rendered = render(messages, llm.tokenizer)
    tokens = tokenize(rendered, llm.tokenizer)
    tagging = RuleTagger().begin(llm)
    tagging.read(Reading(messages, rendered, tokens, 0, tokens.num_tokens))
    by_rules = tagging.state_dict()["region_probs"].argmax(dim=1).numpy()
    pins = [_tokens_of(message, tokens, len(messages)) for message in pin or ()]
    with option_errors():
        planned = plan_retention(region_spans(by_rules), tokens.num_tokens, plan_config, pins=pins)
    typer.echo(json.dumps({"id": chosen.id, "model": model, **planned.to_dict()}, indent=2))


def _tokens_of(message: int, tokens: TokenizedConversation, num_messages: int) -> tuple[int, int]:
    """Return the first token of a message and the one behind its last."""
    places = np.flatnonzero(tokens.message_index == message)
    if not 0 <= message < num_messages or not places.size:
        raise ConfigError(
            f"--pin must be one of the {num_messages} messages, from 0, got {message}"
        )
    return int(places[0]), int(places[-1]) + 1
