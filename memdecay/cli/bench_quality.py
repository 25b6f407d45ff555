"""`memdecay bench quality`: how far each policy strays from a full cache at equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.artifact import ClassifierArtifact, load_artifact
from memdecay.classifier.errors import ConfigError, TraceError
from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.classifier.pretrained import DEFAULT_NAME, classifier_folder, pretrained_folder
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.storage import check_writable
from memdecay.cli.cache_options import (
    ForesightOption,
    find_foresight,
    load_foresight,
)
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bar
from memdecay.cli.options import DeviceOption, DtypeOption, ModelOption, option_errors
from memdecay.cli.quality_traces import quality_trace, select_traces
from memdecay.cli.tagger import BY_CLASSIFIER, BY_RULES, RegionsOption, load_regions
from memdecay.runtime.bench.caches.headwise_methods import HEADWISE
from memdecay.runtime.bench.caches.make import Contestants
from memdecay.runtime.bench.caches.variants import (
    BASELINES,
    MODIFIERS,
    TAG_SOURCES,
    Variant,
    parse_variant,
)
from memdecay.runtime.bench.quality.case import QualityCase, prepare_case
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.bench.quality.run import Places, QualityBenchmark
from memdecay.runtime.bench.report.write import quality_table, write_report
from memdecay.runtime.config import PACKAGED, CacheConfig
from memdecay.runtime.policies import POLICIES, make_policy
from memdecay.runtime.rule_tagger import RuleTagger
from memdecay.runtime.tagger import RegionTagger
from memdecay.runtime.tagging import SessionTagger

_DEFAULTS = QualityConfig()
_OURS = ("region", "memdecay")
_MAX_CHARACTERS_PER_TOKEN = 16
EPILOG = f"""
A policy is {", ".join(POLICIES)}; or, for comparison only, {", ".join(HEADWISE)}, where each layer
or head keeps its own tokens. [bold]policy@tags[/bold] says where regions come from
({", ".join(TAG_SOURCES)}), [bold]policy+change[/bold] leaves something out
({", ".join(MODIFIERS)}).

[bold]Examples[/bold]

memdecay bench quality --traces traces.jsonl --policies window,snapkv,memdecay --out runs/bench

memdecay bench quality --traces gold.jsonl --policies memdecay@gold,memdecay@none --out runs/regions
"""


def quality(
    traces: Annotated[
        list[Path],
        typer.Option(
            "--traces", help="Traces (JSONL), labelled or not; may be given several times."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for rows, tables and plots.")],
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            help="What to compare, separated by commas; if not given, "
            f"{', '.join((*BASELINES, *_OURS))}, without learned where there is no foresight head.",
        ),
    ] = None,
    budgets: Annotated[
        str, typer.Option("--budgets", help="Shares of the full cache's bytes, with commas.")
    ] = "0.125,0.25,0.5",
    classifier: Annotated[
        str | None,
        typer.Option(
            "--classifier",
            help="Where regions come from unless a policy says so: a classifier folder, "
            f"[bold]{DEFAULT_NAME}[/bold] for the packaged one, or [bold]{BY_RULES}[/bold]; "
            "left out, the packaged one where the model has one, and else no token has a region.",
        ),
    ] = None,
    regions: RegionsOption = None,
    foresight: ForesightOption = PACKAGED,
    select: Annotated[
        Path | None,
        typer.Option(
            "--select",
            help="JSON file that names the traces to take, see benchmarks/.",
            rich_help_panel="Traces",
        ),
    ] = None,
    min_tokens: Annotated[
        int,
        typer.Option(
            "--min-tokens", min=1, help="Leave out shorter traces.", rich_help_panel="Traces"
        ),
    ] = 2048,
    max_tokens: Annotated[
        int,
        typer.Option(
            "--max-tokens", min=1, help="Leave out longer traces.", rich_help_panel="Traces"
        ),
    ] = 8192,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=1, help="Take only the first traces that fit.", rich_help_panel="Traces"
        ),
    ] = None,
    max_scored: Annotated[
        int,
        typer.Option(
            "--max-scored",
            min=1,
            help="Most assistant tokens compared in a trace.",
            rich_help_panel="Measures",
        ),
    ] = _DEFAULTS.max_scored,
    chunk: Annotated[
        int,
        typer.Option("--chunk", min=1, help="Tokens of one forward.", rich_help_panel="Measures"),
    ] = _DEFAULTS.chunk_tokens,
    num_recent: Annotated[
        int,
        typer.Option(
            "--num-recent", min=0, help="Newest tokens never evicted.", rich_help_panel="Measures"
        ),
    ] = _DEFAULTS.num_recent,
    probes: Annotated[
        int,
        typer.Option(
            "--probes",
            min=0,
            help="Spans to recall for each region and age.",
            rich_help_panel="Measures",
        ),
    ] = _DEFAULTS.probes_per_cell,
    continuation: Annotated[
        int,
        typer.Option(
            "--continuation",
            min=0,
            help="Tokens of the last turn's continuation.",
            rich_help_panel="Measures",
        ),
    ] = _DEFAULTS.continuation_tokens,
    references: Annotated[
        Path | None,
        typer.Option(
            "--references",
            help="Folder of the full cache's predictions, to share between benchmarks; "
            "OUT/references if left out.",
        ),
    ] = None,
    redo: Annotated[
        bool, typer.Option("--redo", help="Measure again what was measured already.")
    ] = False,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    kv_dtype: Annotated[
        str,
        typer.Option(
            "--kv-dtype",
            help="What keys and values are stored in at full precision, and the full cache's bytes "
            "counted in: float32, bfloat16, float16, or auto for the model's own.",
            rich_help_panel="Model",
        ),
    ] = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Measure how far each policy strays from a full cache at equal bytes of keys and values.

    Recorded traces are replayed as they are, and the predictions of the assistant's tokens are
    compared with those of a full cache. A killed run goes on where it was when the same command is
    given again.
    """
    variants = _variants(policies, foresight, model)
    shares = _shares(budgets)
    with option_errors():
        quality_config = QualityConfig(
            chunk_tokens=chunk,
            max_scored=max_scored,
            probes_per_cell=probes,
            continuation_tokens=continuation,
            num_recent=num_recent,
            kv_dtype=None if kv_dtype == "auto" else kv_dtype,
        )
    check_writable(out, is_folder=True)
    settings = load_regions(regions)
    artifact = _artifact(classifier, model)
    llm = load_llm(model, dtype, device)
    cases = _cases(traces, select, min_tokens, max_tokens, limit, llm, quality_config)
    head = load_foresight(foresight, llm)
    contestants = Contestants(
        llm,
        quality_config,
        _taggers(artifact, settings, llm),
        BY_CLASSIFIER if artifact else BY_RULES if classifier == BY_RULES else "none",
        settings,
        head,
    )
    benchmark = QualityBenchmark(
        contestants,
        Places(out, references or out / "references"),
        is_redone=redo,
        identity=_identity(artifact, settings),
    )
    with progress_bar(f"{len(cases)} traces", "tokens") as progress:
        rows = benchmark.run(cases, variants, shares, progress)
    report = write_report(out, rows, variants, quality_config, llm)
    console = output_console()
    console.print(quality_table(rows, variants))
    console.print(f"Report: {report}")


def _variants(policies: str | None, foresight: str, model: str) -> list[Variant]:
    """Read what is compared, and refuse what can't be had before the model is loaded."""
    head = find_foresight(foresight, model)
    if policies is None:
        names = [name for name in (*BASELINES, *_OURS) if head is not None or name != "learned"]
    else:
        names = _split(policies, "--policies")
    variants = [parse_variant(name) for name in names]
    for variant in variants:
        if not variant.is_headwise:
            any_room = CacheConfig(budget_tokens=1024, policy=variant.policy, foresight=head)
            make_policy(variant.configure(any_room))
    return variants


def _split(names: str, option: str) -> list[str]:
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise ConfigError(f"{option} names nothing; give names separated by commas")
    return list(dict.fromkeys(found))


def _shares(budgets: str) -> list[float]:
    shares = []
    for text in _split(budgets, "--budgets"):
        try:
            share = float(text)
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            raise ConfigError(
                f"--budgets takes shares of the full cache, above 0 and at most 1, got {text!r}"
            )
        shares.append(share)
    return sorted(set(shares))


def _artifact(classifier: str | None, model: str) -> ClassifierArtifact | None:
    """Open the classifier that was asked for, by default the model's packaged one, if any."""
    if classifier == BY_RULES:
        return None
    if classifier is not None:
        return load_artifact(classifier_folder(Path(classifier), model))
    folder = pretrained_folder(model)
    return None if folder is None else load_artifact(folder)


def _taggers(
    artifact: ClassifierArtifact | None, settings: RegionSettings | None, llm: LanguageModel
) -> dict[str, SessionTagger]:
    table = None if settings is None else settings.table
    taggers: dict[str, SessionTagger] = {BY_RULES: RuleTagger(table)}
    if artifact is not None:
        taggers[BY_CLASSIFIER] = RegionTagger(artifact, llm.device.type, table)
    return taggers


def _identity(artifact: ClassifierArtifact | None, settings: RegionSettings | None) -> str:
    return f"{None if artifact is None else artifact.card} {settings}"


def _cases(
    paths: list[Path],
    select: Path | None,
    min_tokens: int,
    max_tokens: int,
    limit: int | None,
    llm: LanguageModel,
    config: QualityConfig,
) -> list[QualityCase]:
    """Prepare the traces that were asked for, in the order of the files."""
    cases: dict[str, QualityCase] = {}
    for trace in select_traces(paths, select):
        # Tokenizing takes longer than counting characters, of which a token has at least one.
        if not min_tokens <= trace.num_characters <= max_tokens * _MAX_CHARACTERS_PER_TOKEN:
            continue
        case = prepare_case(quality_trace(trace), llm.tokenizer, config)
        if min_tokens <= case.num_tokens <= max_tokens and len(case.positions):
            cases.setdefault(trace.id, case)
        if limit is not None and len(cases) == limit:
            break
    if not cases:
        raise TraceError(
            f"no trace of {min_tokens} to {max_tokens} tokens with an assistant's messages was "
            "found; give other --traces, or change --min-tokens and --max-tokens"
        )
    return list(cases.values())
