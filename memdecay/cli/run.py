"""`memdecay run`: a session under a budget, replayed or typed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.embedded import EMBEDDED_NAME
from memdecay.classifier.llm import load_llm
from memdecay.classifier.pretrained import DEFAULT_NAME, classifier_folder, pretrained_folder
from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.storage import check_writable, write_text_atomically
from memdecay.cli.cache_options import (
    BlockTokensOption,
    EarlyMarginOption,
    EarlyWatermarkOption,
    ForesightOption,
    LateTaggingOption,
    PackAheadOption,
    check_policy,
    load_foresight,
    with_cache_options,
)
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import error_console, output_console, progress_bar
from memdecay.cli.explanation import explanation_table
from memdecay.cli.options import (
    MAX_SEED,
    DeviceOption,
    DtypeOption,
    IdOption,
    IndexOption,
    ModelOption,
    option_errors,
)
from memdecay.cli.picture import check_picture, write_cache_picture
from memdecay.cli.report import REGION_COLOURS, mebibytes
from memdecay.cli.tagger import (
    BY_CLASSIFIER,
    RegionsOption,
    TaggerOption,
    apply_regions,
    check_tagger,
    load_regions,
    make_tagger,
)
from memdecay.cli.traces import pick_trace
from memdecay.runtime.config import PACKAGED, CacheConfig
from memdecay.runtime.policies import POLICIES
from memdecay.runtime.sampling import SamplingConfig
from memdecay.runtime.session import Reply, Session
from memdecay.runtime.stats import SessionStats

_LEAVE = "/quit"
_DEFAULTS = CacheConfig(budget_tokens=1024)
EPILOG = f"""
[bold]Examples[/bold]

memdecay run --trace traces.jsonl --budget 1024 --classifier runs/mine

memdecay run --trace traces.jsonl --budget 1024 --tagger rules

memdecay run --trace traces.jsonl --budget 1024 --pin 0 --explain 20

memdecay run --trace traces.jsonl --index 3 --policy window --budget 1024

memdecay run --classifier runs/mine --budget 2048       (type; {_LEAVE} ends)
"""


def run(
    trace: Annotated[
        Path | None,
        typer.Option("--trace", help="File of traces to replay one from; without it you type."),
    ] = None,
    index: IndexOption = 0,
    trace_id: IdOption = None,
    budget: Annotated[
        int, typer.Option("--budget", min=1, help="Tokens that the cache has room for.")
    ] = _DEFAULTS.budget_tokens,
    policy: Annotated[
        str, typer.Option("--policy", help=f"What to forget first: {', '.join(POLICIES)}.")
    ] = _DEFAULTS.policy,
    classifier: Annotated[
        Path | None,
        typer.Option(
            "--classifier",
            help=f"Classifier folder; if not given, {DEFAULT_NAME}, the one packaged for "
            f"{EMBEDDED_NAME}. Tokens of other models have no region without one.",
        ),
    ] = None,
    tagger: TaggerOption = BY_CLASSIFIER,
    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", min=0, help="Longest answer; 0 for none.")
    ] = 64,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0.0, help="0 takes the likeliest token.")
    ] = 0.0,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of drawn answers.")
    ] = 0,
    num_sinks: Annotated[
        int,
        typer.Option(
            "--num-sinks", min=0, help="First tokens never evicted.", rich_help_panel="Cache"
        ),
    ] = _DEFAULTS.num_sinks,
    num_recent: Annotated[
        int,
        typer.Option(
            "--num-recent", min=0, help="Newest tokens never evicted.", rich_help_panel="Cache"
        ),
    ] = _DEFAULTS.num_recent,
    high_watermark: Annotated[
        float,
        typer.Option(
            "--high-watermark",
            help="Share of the budget above which tokens are evicted.",
            rich_help_panel="Cache",
        ),
    ] = _DEFAULTS.high_watermark,
    low_watermark: Annotated[
        float,
        typer.Option(
            "--low-watermark",
            help="Share of the budget that eviction goes down to.",
            rich_help_panel="Cache",
        ),
    ] = _DEFAULTS.low_watermark,
    early_watermark: EarlyWatermarkOption = _DEFAULTS.early.watermark,
    early_margin: EarlyMarginOption = _DEFAULTS.early.margin,
    max_region_share: Annotated[
        float,
        typer.Option(
            "--max-region-share",
            help="Largest share of the kept tokens for one region while others want room.",
            rich_help_panel="Cache",
        ),
    ] = _DEFAULTS.max_region_share,
    block_tokens: BlockTokensOption = _DEFAULTS.block_tokens,
    late_tagging: LateTaggingOption = _DEFAULTS.late_tagging.max_share,
    foresight: ForesightOption = PACKAGED,
    pack_ahead: PackAheadOption = _DEFAULTS.fading.staging_share,
    regions: RegionsOption = None,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    pin: Annotated[
        list[int] | None,
        typer.Option(
            "--pin",
            help="Message of the trace that is never forgotten, from 0; may be given several "
            "times.",
            rich_help_panel="Cache",
        ),
    ] = None,
    explain: Annotated[
        int,
        typer.Option("--explain", min=0, help="Show so many of the spans forgotten or faded last."),
    ] = 0,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw the cache over time to this file.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the statistics to this file as JSON.")
    ] = None,
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Replay a recorded session, or type one, with a cache that forgets within a budget.

    A replayed session is read message by message as it was recorded, then the model goes on by
    itself. The statistics say what was kept and what was evicted.
    """
    if classifier is not None:
        classifier = classifier_folder(classifier, model)
    elif tagger == BY_CLASSIFIER:
        classifier = pretrained_folder(model)
    check_tagger(tagger, classifier, regions)
    region_settings = load_regions(regions)
    with option_errors():
        cache_config = CacheConfig(
            budget_tokens=budget,
            high_watermark=high_watermark,
            low_watermark=low_watermark,
            num_sinks=num_sinks,
            num_recent=num_recent,
            max_region_share=max_region_share,
            policy=policy,
        )
        early = (early_watermark, early_margin)
        cache_config = with_cache_options(
            cache_config, block_tokens, late_tagging, pack_ahead, early
        )
        cache_config = apply_regions(cache_config, region_settings)
        answering = _Answering(max_new_tokens, SamplingConfig(temperature, seed=seed))
    check_policy(cache_config, foresight, model)
    # A session may take an hour: what comes after it is checked before it.
    if picture is not None:
        check_picture(picture)
    if json_file is not None:
        check_writable(json_file)
    recorded = pick_trace(trace, trace_id, index) if trace is not None else None
    artifact = load_artifact(classifier) if classifier is not None else None
    llm = load_llm(model, dtype, device)
    cache_config = dataclasses.replace(cache_config, foresight=load_foresight(foresight, llm))
    session = Session(llm, cache_config, make_tagger(tagger, artifact, region_settings, llm))
    if recorded is not None:
        messages = [message.to_openai() for message in recorded.messages]
        with progress_bar("Reading", "tokens") as progress, option_errors():
            session.feed(messages, on_progress=progress, pins=pin or ())
        if max_new_tokens:
            answering.answer(session)
    else:
        _chat(session, answering)
    _report(session.stats(), policy, cache_config, picture, json_file)
    if explain:
        output_console().print(explanation_table(session.explain(), explain))


@dataclasses.dataclass(frozen=True, slots=True)
class _Answering:
    max_new_tokens: int
    sampling: SamplingConfig

    def answer(self, session: Session) -> Reply:
        """Print the model's answer as it is written."""
        output_console().print("[bold]assistant[/bold]")
        reply = session.reply(
            self.max_new_tokens,
            temperature=self.sampling.temperature,
            seed=self.sampling.seed,
            on_text=lambda text: typer.echo(text, nl=False),
        )
        typer.echo()
        return reply


def _chat(session: Session, answering: _Answering) -> None:
    for text in _typed():
        session.prefill([{"role": "user", "content": text}])
        if answering.max_new_tokens:
            answering.answer(session)
        stats = session.stats()
        error_console().print(
            f"[dim]{stats.tokens_seen} tokens seen, {stats.tokens_kept} kept, "
            f"{mebibytes(stats.kv_bytes)}[/dim]"
        )


def _typed() -> Iterator[str]:
    while True:
        try:
            text = output_console().input("[bold]you[/bold] ").strip()
        except EOFError:
            output_console().print()
            return
        if text == _LEAVE:
            return
        if text:
            yield text


def _report(
    stats: SessionStats,
    policy: str,
    config: CacheConfig,
    picture: Path | None,
    json_file: Path | None,
) -> None:
    console = output_console()
    console.print(_statistics_table(stats, policy, config))
    if picture is not None:
        write_cache_picture(picture, {policy: stats})
        console.print(f"Picture: {picture}")
    if json_file is not None:
        write_text_atomically(json_file, json.dumps(dataclasses.asdict(stats), indent=2) + "\n")
        console.print(f"Statistics: {json_file}")


def _statistics_table(stats: SessionStats, policy: str, config: CacheConfig) -> Table:
    saved = stats.saved_share
    decode = stats.decode_ms_per_token
    table = Table(
        title=f"{policy}: {stats.tokens_kept} of {stats.tokens_seen} tokens kept"
        + ("" if policy == "full" else f", budget {config.budget_tokens}"),
        caption=f"KV cache {mebibytes(stats.kv_bytes)} now, {mebibytes(stats.peak_kv_bytes)} at "
        f"most; a full cache holds {mebibytes(stats.full_cache_bytes)}"
        # The buffers have their size from the start: a short session has nothing to save.
        + (f" ({saved:.0%} saved)" if saved > 0 else "")
        + (f"; {decode:.1f} ms a decoded token" if decode is not None else ""),
    )
    table.add_column("region")
    table.add_column("kept", justify="right")
    table.add_column("evicted", justify="right")
    for label in REGION_LABELS:
        table.add_row(
            f"[{REGION_COLOURS[label]}]{label}[/]",
            str(stats.kept_per_region.get(label, 0)),
            str(stats.evicted_per_region.get(label, 0)),
        )
    return table
