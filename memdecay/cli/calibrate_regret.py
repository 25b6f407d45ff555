"""`memdecay calibrate-regret`: what a tagger's mistakes cost under a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memdecay import __version__
from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.embedded import EMBEDDED_NAME
from memdecay.classifier.errors import ConfigError, TraceError
from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.classifier.pretrained import DEFAULT_NAME, classifier_folder, pretrained_folder
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.regret import EvictionRegret
from memdecay.classifier.storage import check_writable
from memdecay.cli.calibrate_decay import print_section
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bars
from memdecay.cli.options import DeviceOption, DtypeOption, ModelOption, option_errors
from memdecay.cli.tagger import (
    BY_CLASSIFIER,
    RegionsOption,
    TaggerOption,
    apply_regions,
    check_tagger,
    load_regions,
    make_tagger,
)
from memdecay.cli.traces import load_labelled_traces
from memdecay.data.digests import trace_digest
from memdecay.data.hindsight.cutting import cut_to_messages
from memdecay.data.hindsight.measured import align_trace
from memdecay.data.trace import Trace
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.regret import RegretConfig, eviction_regret
from memdecay.runtime.tagging import SessionTagger
from memdecay.training.decay.files import write_section
from memdecay.training.decay.regret import RegretContext, regret_report, regret_section
from memdecay.training.decay.regret_progress import RegretProgress

_DEFAULTS = RegretConfig()
_MAX_TOKENS = 2048
_BUDGET = 512
EPILOG = """
[bold]Examples[/bold]

memdecay calibrate-regret --classifier runs/mine --traces gold.jsonl --out regret

memdecay calibrate-regret --tagger rules --traces gold.jsonl --budget 256 --out regret
"""


def calibrate_regret(
    traces: Annotated[
        list[Path],
        typer.Option("--traces", help="Labelled traces (JSONL); may be given several times."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the report.")],
    classifier: Annotated[
        Path | None,
        typer.Option(
            "--classifier",
            help=f"Classifier folder; if not given, {DEFAULT_NAME}, the one packaged for "
            f"{EMBEDDED_NAME}.",
        ),
    ] = None,
    tagger: TaggerOption = BY_CLASSIFIER,
    budget: Annotated[
        int, typer.Option("--budget", min=1, help="Tokens that the cache has room for.")
    ] = _BUDGET,
    policy: Annotated[str, typer.Option("--policy", help="The eviction policy.")] = CacheConfig(
        budget_tokens=_BUDGET
    ).policy,
    max_tokens: Annotated[
        int,
        typer.Option("--max-tokens", min=1, help="Messages of a trace are read up to this length."),
    ] = _MAX_TOKENS,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Read only the first so many traces.")
    ] = None,
    max_confusions: Annotated[
        int,
        typer.Option("--max-confusions", min=0, help="Kinds of mistakes replayed for a trace."),
    ] = _DEFAULTS.max_confusions,
    max_scored: Annotated[
        int,
        typer.Option("--max-scored", min=1, help="Predictions of a trace that are compared."),
    ] = _DEFAULTS.max_positions,
    regions: RegionsOption = None,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Measure what a tagger's wrong regions cost, confusion by confusion.

    Each trace is replayed under the budget: with the gold regions, with the tagger's, with none,
    and with each frequent confusion alone. The cost is the KL divergence from a full cache.
    A killed run goes on where it was when the same command is given again.
    """
    check_writable(out, is_folder=True)
    if classifier is not None:
        classifier = classifier_folder(classifier, model)
    elif tagger == BY_CLASSIFIER:
        classifier = pretrained_folder(model)
    check_tagger(tagger, classifier, regions)
    if tagger == BY_CLASSIFIER and classifier is None:
        raise ConfigError("there is no tagger to judge; add --classifier or --tagger rules")
    settings = load_regions(regions)
    with option_errors():
        cache_config = apply_regions(CacheConfig(budget, policy=policy), settings)
    artifact = load_artifact(classifier) if classifier is not None else None
    labelled = load_labelled_traces(traces)[:limit]
    llm = load_llm(model, dtype, device)
    judged = make_tagger(tagger, artifact, settings, llm)
    assert judged is not None, "one of the two was asked for"
    propagation = PropagationConfig() if artifact is None else artifact.card.propagation
    regret_config = RegretConfig(max_confusions, max_scored, propagation=propagation)
    classifier_files = None if artifact is None else artifact.card.files
    measured = (llm.name, tagger, classifier_files, cache_config, regret_config, max_tokens)
    progress = RegretProgress(out, [__version__, repr(measured)])
    replayed = _measure(labelled, llm, cache_config, judged, regret_config, max_tokens, progress)
    trained_on = () if artifact is None else artifact.card.trained_on
    context = RegretContext(
        model=llm.name,
        tagger="the rules" if artifact is None else "the classifier",
        policy=policy,
        budget_tokens=budget,
        max_tokens=max_tokens,
        num_skipped=len(labelled) - len(replayed),
        num_trained_on=sum(trace_digest(trace) in trained_on for trace, _ in replayed),
    )
    section = regret_section(regret_report([regret for _, regret in replayed], context))
    files = write_section(section, out)
    print_section(section)
    output_console().print(section.paragraphs[1], markup=False)
    output_console().print(f"Report: {', '.join(map(str, files))}", markup=False)


def _measure(
    traces: list[Trace],
    llm: LanguageModel,
    cache_config: CacheConfig,
    tagger: SessionTagger,
    config: RegretConfig,
    max_tokens: int,
    progress: RegretProgress,
) -> list[tuple[Trace, EvictionRegret]]:
    found = []
    with progress_bars() as add_bar:
        on_trace, on_replay = add_bar("Traces", "traces"), add_bar("Replays", "of this trace")
        for index, trace in enumerate(traces):
            on_trace(index, len(traces))
            cut = cut_to_messages(trace, llm, max_tokens)
            if cut is None:
                continue
            if not progress.is_measured(cut):
                messages = [message.to_openai() for message in cut.messages]
                gold = align_trace(cut, llm, max_tokens).labels
                progress.save(
                    cut,
                    eviction_regret(llm, cache_config, messages, gold, tagger, config, on_replay),
                )
            regret = progress.find(cut)
            if regret is not None:
                found.append((trace, regret))
    if not found:
        raise TraceError(
            f"none of the {len(traces)} traces has an assistant's text behind "
            f"{cache_config.budget_tokens} tokens; give longer traces, raise --max-tokens or "
            "lower --budget"
        )
    return found
