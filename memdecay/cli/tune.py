"""`memdecay tune`: how regions should be scored for a model and traces of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.artifact import ClassifierArtifact, load_artifact
from memdecay.classifier.embedded import cache_folder
from memdecay.classifier.errors import ConfigError
from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.classifier.pretrained import DEFAULT_NAME, classifier_folder
from memdecay.classifier.region_file import write_region_settings
from memdecay.classifier.region_settings import RegionSettings
from memdecay.classifier.regions import Region
from memdecay.classifier.storage import check_writable
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bars
from memdecay.cli.options import MAX_SEED, DeviceOption, DtypeOption, ModelOption, option_errors
from memdecay.cli.tagger import load_regions
from memdecay.cli.tune_traces import check_labels, long_cases, split_moments
from memdecay.runtime.bench.caches.gold import GoldTagger
from memdecay.runtime.bench.quality.case import QualityCase
from memdecay.runtime.rule_tagger import RuleTagger
from memdecay.runtime.tagger import RegionTagger
from memdecay.runtime.tagging import SessionTagger
from memdecay.runtime.tuning.gather import MomentsConfig, Tuning, tags_identity
from memdecay.runtime.tuning.report import FitContext, outcome_sentence, shown, write_fit_report
from memdecay.runtime.tuning.store import TuningStore
from memdecay.runtime.tuning.table_fit import TableConfig
from memdecay.runtime.tuning.tune import Stage, TuneConfig, Tuned, tune_regions
from memdecay.runtime.tuning.weights_fit import WeightsConfig

BY_RULES, BY_GOLD = "rules", "gold"
_WEIGHTS = WeightsConfig()
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
            help=f"Where regions come from: a classifier folder, [bold]{DEFAULT_NAME}[/bold] for "
            "the packaged one, [bold]rules[/bold], or [bold]gold[/bold] for the traces' own "
            "labels.",
        ),
    ] = BY_RULES,
    stages: Annotated[
        str,
        typer.Option(
            "--stages",
            help="What is fitted, joined by commas: [bold]table[/bold], scores and half-lives, and "
            "[bold]weights[/bold].",
        ),
    ] = ",".join(Stage),
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            help="Region that never fades, such as system_instruction, whatever the fit says; may "
            "be given several times.",
        ),
    ] = None,
    budget: Annotated[
        float, typer.Option("--budget", help="Share of the full cache's bytes.")
    ] = _MOMENTS.budget,
    test_share: Annotated[
        float,
        typer.Option(
            "--test-share",
            help="Share of the traces' sources, or tasks, that only test the weights.",
        ),
    ] = 0.4,
    max_evaluations: Annotated[
        int, typer.Option("--max-evaluations", min=1, help="Most weights that are tried.")
    ] = _WEIGHTS.max_evaluations,
    moments: Annotated[
        int, typer.Option("--moments", min=1, help="Most snapshots of a trace.")
    ] = _MOMENTS.per_trace,
    next_tokens: Annotated[
        int,
        typer.Option("--next-tokens", min=2, help="Tokens read behind each snapshot."),
    ] = _MOMENTS.next_tokens,
    regions: Annotated[
        Path | None,
        typer.Option(
            "--regions",
            help="Settings (TOML) to begin with, which also says all that is not fitted.",
        ),
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
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Which traces test the weights.")
    ] = 0,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Fit how regions are scored, how they fade and what they weigh.

    Each trace is read up to moments after which the assistant writes much. Scores and half-lives
    are fitted to the attention that comes then, beyond what the cache expects without regions;
    weights are tried, by fading the past into the budget and reading on. Traces of other sources
    or tasks than it was fitted to decide on each: what does not lower their divergence from a full
    cache is dropped, and where regions don't help at all, they play no part.
    A killed run goes on where it was when the same command is given again.
    """
    if not 0 < test_share < 1:
        raise ConfigError(f"--test-share must be above 0 and below 1, got {test_share}")
    check_writable(out)
    folder = work or cache_folder() / "tuning"
    check_writable(folder, is_folder=True)
    base = replace(load_regions(regions) or RegionSettings(), model=model, made_by="memdecay tune")
    with option_errors():
        moments_config = MomentsConfig(moments, next_tokens, budget)
        tune_config = _config(_stages(stages), _kept(keep or []), max_evaluations, base)
    named = classifier not in (BY_RULES, BY_GOLD)
    artifact = load_artifact(classifier_folder(Path(classifier), model)) if named else None
    llm = load_llm(model, dtype, device)
    found = long_cases(traces, select, moments_config.min_past, max_tokens, limit, llm)
    tuning = _tuning(llm, folder, moments_config, classifier, artifact)
    if classifier == BY_GOLD:
        check_labels([trace for trace, _ in found])
    with progress_bars() as add_bar:
        snapshots = tuning.gather([case for _, case in found], add_bar("Reading", "tokens"))
        held = split_moments([trace for trace, _ in found], snapshots, test_share, seed)
        keys = [key for key, _ in snapshots] if Stage.TABLE in tune_config.stages else []
        evidence = tuning.evidence(keys, add_bar("Reading on", "moments"))
        tuned = tune_regions(
            tuning.judge, evidence, held, base, tune_config, add_bar("Fitting", "forwards")
        )
    write_region_settings(out, tuned.chosen)
    context = FitContext(llm.name, classifier, budget, next_tokens)
    _report(tuned, out, write_fit_report(out, tuned, context))


def _config(
    stages: frozenset[Stage],
    kept: frozenset[Region],
    max_evaluations: int,
    base: RegionSettings,
) -> TuneConfig:
    table = TableConfig(kept=kept)
    if Stage.TABLE in stages and base.prior_weight is not None:
        table = replace(table, prior_weight=base.prior_weight)
    return TuneConfig(stages, table, WeightsConfig(max_evaluations))


def _tuning(
    llm: LanguageModel,
    folder: Path,
    config: MomentsConfig,
    classifier: str,
    artifact: ClassifierArtifact | None,
) -> Tuning:
    store = TuningStore(folder)
    if artifact is None:
        rules = RuleTagger()

        def tagger_of(case: QualityCase) -> SessionTagger:
            return GoldTagger(case.regions) if classifier == BY_GOLD else rules

        return Tuning(llm, store, config, tagger_of, classifier)
    tagger = RegionTagger(artifact, llm.device.type)
    card = artifact.card
    return Tuning(llm, store, config, lambda _: tagger, tags_identity(card), card.propagation)


def _stages(text: str) -> frozenset[Stage]:
    try:
        return frozenset(Stage(name.strip()) for name in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--stages must be one or more of {', '.join(Stage)}, joined by commas, got {text!r}"
        ) from None


def _kept(names: Sequence[str]) -> frozenset[Region]:
    try:
        return frozenset(Region.from_label(name) for name in names)
    except ValueError as error:
        raise ConfigError(f"--keep: {error}") from error


def _report(tuned: Tuned, out: Path, page: Path) -> None:
    console = output_console()
    for stage in tuned.stages:
        console.print(
            f"KL over that without regions, traces left out of the {stage.name}: "
            f"{shown(stage.ratio())}, before {shown(stage.ratio('kl_before'))}"
        )
    console.print(outcome_sentence(tuned))
    console.print(f"Settings: {out}", markup=False)
    console.print(f"Report: {page}", markup=False)
