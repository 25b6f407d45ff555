"""`memdecay tune`: what the regions should weigh for a model and traces of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.artifact import ClassifierArtifact, load_artifact
from memdecay.classifier.embedded import cache_folder
from memdecay.classifier.errors import ConfigError, TraceError
from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.classifier.pretrained import classifier_folder
from memdecay.classifier.region_file import write_region_settings
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.storage import check_writable
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bars
from memdecay.cli.options import MAX_SEED, DeviceOption, DtypeOption, ModelOption, option_errors
from memdecay.cli.quality_traces import quality_trace, select_traces
from memdecay.cli.tagger import load_regions
from memdecay.data.trace import Trace
from memdecay.runtime.bench.caches.gold import GoldTagger
from memdecay.runtime.bench.quality.case import QualityCase, prepare_case
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.rule_tagger import RuleTagger
from memdecay.runtime.tagger import RegionTagger
from memdecay.runtime.tagging import SessionTagger
from memdecay.runtime.tuning.fit import Fit, FitConfig, fit_weights
from memdecay.runtime.tuning.gather import MomentsConfig, Tuning
from memdecay.runtime.tuning.report import FitContext, write_fit_report
from memdecay.runtime.tuning.store import TuningStore
from memdecay.training.splits import draw_tasks, task_groups

BY_RULES, BY_GOLD = "rules", "gold"
_FIT = FitConfig()
_MOMENTS = MomentsConfig()
EPILOG = """
[bold]Examples[/bold]

memdecay tune --traces traces.jsonl --classifier runs/mine --out regions.toml

memdecay run --classifier runs/mine --regions regions.toml --trace traces.jsonl
"""


def tune(
    traces: Annotated[
        list[Path],
        typer.Option(
            "--traces", help="Traces (JSONL), labelled or not; may be given several times."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", help="File for the settings (TOML); the report stands beside it."),
    ],
    classifier: Annotated[
        str,
        typer.Option(
            "--classifier",
            help="Where regions come from: a classifier folder, [bold]rules[/bold], or "
            "[bold]gold[/bold] for the traces' own labels.",
        ),
    ] = BY_RULES,
    budget: Annotated[
        float, typer.Option("--budget", help="Share of the full cache's bytes.")
    ] = _MOMENTS.budget,
    test_share: Annotated[
        float,
        typer.Option("--test-share", help="Share of the tasks that only test the outcome."),
    ] = 0.4,
    max_evaluations: Annotated[
        int, typer.Option("--max-evaluations", min=1, help="Most settings that are tried.")
    ] = _FIT.max_evaluations,
    moments: Annotated[
        int, typer.Option("--moments", min=1, help="Most snapshots of a trace.")
    ] = _MOMENTS.per_trace,
    next_tokens: Annotated[
        int,
        typer.Option("--next-tokens", min=2, help="Tokens read behind each snapshot."),
    ] = _MOMENTS.next_tokens,
    regions: Annotated[
        Path | None,
        typer.Option("--regions", help="Settings (TOML) of which all but the weights are kept."),
    ] = None,
    select: Annotated[
        Path | None,
        typer.Option(
            "--select", help="JSON file that names the traces to take.", rich_help_panel="Traces"
        ),
    ] = None,
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
    work: Annotated[
        Path | None,
        typer.Option(
            "--work", help="Folder for snapshots (some 100 MB each); memdecay's cache if left out."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Which tasks test the outcome.")
    ] = 0,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Fit what the regions weigh to the divergence from a full cache.

    Each trace is read once up to a moment after which the assistant writes much. Fading its past
    into the budget and reading on takes seconds, so many weights can be tried. Other tasks' traces
    then decide: where the weights don't help there, the written settings have none, and where
    regions don't help at all, they play no part.
    A killed run goes on where it was when the same command is given again.
    """
    if not 0 < test_share < 1:
        raise ConfigError(f"--test-share must be above 0 and below 1, got {test_share}")
    with option_errors():
        moments_config = MomentsConfig(moments, next_tokens, budget)
        fit_config = FitConfig(max_evaluations)
    check_writable(out)
    folder = work or cache_folder() / "tuning"
    check_writable(folder, is_folder=True)
    base = replace(load_regions(regions) or RegionSettings(), model=model, made_by="memdecay tune")
    named = classifier not in (BY_RULES, BY_GOLD)
    artifact = load_artifact(classifier_folder(Path(classifier), model)) if named else None
    llm = load_llm(model, dtype, device)
    found = _cases(traces, select, moments_config.min_past, max_tokens, limit, llm)
    tuning = _tuning(llm, folder, moments_config, classifier, artifact, base)
    if classifier == BY_GOLD:
        _check_labels(found)
    with progress_bars() as add_bar:
        snapshots = tuning.gather([case for _, case in found], add_bar("Reading", "tokens"))
        fit_keys, test_keys = _split([trace for trace, _ in found], snapshots, test_share, seed)
        fit = fit_weights(
            tuning.judge, fit_keys, test_keys, base, fit_config, add_bar("Fitting", "forwards")
        )
    write_region_settings(out, fit.chosen)
    context = FitContext(llm.name, classifier, budget, next_tokens)
    _report(fit, out, write_fit_report(out, fit, context))


def _cases(
    paths: Sequence[Path],
    select: Path | None,
    min_tokens: int,
    max_tokens: int,
    limit: int | None,
    llm: LanguageModel,
) -> list[tuple[Trace, QualityCase]]:
    """Prepare the traces that are long enough, in the order of the files, each id once."""
    found: dict[str, tuple[Trace, QualityCase]] = {}
    for trace in select_traces(paths, select):
        # Tokenizing takes longer than counting characters, of which a token has at least one.
        if trace.id in found or trace.num_characters < min_tokens:
            continue
        case = prepare_case(quality_trace(trace), llm.tokenizer, QualityConfig())
        if min_tokens < case.num_tokens <= max_tokens:
            found[trace.id] = trace, case
        if len(found) == limit:
            break
    return list(found.values())


def _tuning(
    llm: LanguageModel,
    folder: Path,
    config: MomentsConfig,
    classifier: str,
    artifact: ClassifierArtifact | None,
    base: RegionSettings,
) -> Tuning:
    if artifact is not None:
        tagger: SessionTagger = RegionTagger(artifact, llm.device.type, base.table)
    else:
        tagger = RuleTagger(base.table)

    def tagger_of(case: QualityCase) -> SessionTagger:
        return GoldTagger(case.regions, base.table) if classifier == BY_GOLD else tagger

    source = classifier if artifact is None else repr(artifact.card)
    return Tuning(llm, TuningStore(folder), config, tagger_of, f"{source} {base.table}")


def _check_labels(found: Sequence[tuple[Trace, QualityCase]]) -> None:
    for trace, _ in found:
        if not trace.spans:
            raise ConfigError(
                f"--classifier {BY_GOLD} takes the regions from labels, but the trace "
                f"{trace.id!r} has none; give labelled traces"
            )


def _split(
    traces: Sequence[Trace], snapshots: Sequence[tuple[str, str]], test_share: float, seed: int
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Divide the snapshots by tasks into those of the fit and those of the test."""
    with_moments = {trace for _, trace in snapshots}
    usable = [trace for trace in traces if trace.id in with_moments]
    groups = task_groups(usable)
    if len(set(groups)) < 2:
        raise TraceError(
            f"expected long traces of 2 tasks or more, to fit and test, got {len(set(groups))}; "
            "give more --traces, or a larger --budget, for which shorter ones are long enough"
        )
    _, test = draw_tasks(list(range(len(usable))), groups, test_share, seed)
    test_ids = {usable[index].id for index in test}
    return (
        [each for each in snapshots if each[1] not in test_ids],
        [each for each in snapshots if each[1] in test_ids],
    )


def _report(fit: Fit, out: Path, page: Path) -> None:
    console = output_console()
    for name, is_test in (("fit", False), ("test", True)):
        ratio = fit.ratio(is_test=is_test)
        console.print(
            f"KL over that without regions, {name} traces: {ratio.value:.3f} "
            f"({ratio.low:.3f} to {ratio.high:.3f})"
        )
    if not fit.is_chosen:
        written = "weigh no region" if fit.has_regions else "make the regions play no part"
        console.print(f"No gain from the weights on the test traces: the settings {written}.")
    console.print(f"Settings: {out}")
    console.print(f"Report: {page}")
