"""`memdecay foresee`: fit a head that foresees which tokens will be needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from memdecay.classifier.errors import ConfigError, TraceError
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import LanguageModel, load_llm
from memdecay.classifier.rendering import render
from memdecay.classifier.storage import check_writable
from memdecay.classifier.tokenization import tokenize
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bar
from memdecay.cli.options import MAX_SEED, DeviceOption, DtypeOption, ModelOption, option_errors
from memdecay.data.generator import long_session
from memdecay.data.jsonl import read_traces
from memdecay.data.trace import Trace
from memdecay.runtime.foresight.fit import ForesightFit, fit_head
from memdecay.runtime.foresight.head_file import save_head
from memdecay.runtime.foresight.samples import SamplingConfig, gather_samples

_SESSION_CHARACTERS = 12_000
EPILOG = """
[bold]Examples[/bold]

memdecay foresee --synthetic 12 --model path/to/model --out foresight.json

memdecay foresee --traces traces.jsonl --out foresight.json

memdecay run --foresight foresight.json --trace traces.jsonl --budget 1024
"""


def foresee(
    out: Annotated[Path, typer.Option("--out", help="File for the head (JSON).")],
    traces: Annotated[
        list[Path] | None,
        typer.Option(
            "--traces", help="Traces (JSONL), labelled or not; may be given several times."
        ),
    ] = None,
    synthetic: Annotated[
        int, typer.Option("--synthetic", min=0, help="Generated long sessions to read as well.")
    ] = 0,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=2, help="First tokens of each trace that are read.")
    ] = 4096,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Read only the first so many traces.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Which tokens are looked at.")
    ] = 0,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Fit a head that foresees from a token's keys and values how much it will be attended to.

    The model reads traces with nothing evicted; what tokens looked like at some moments is set
    against the attention that they got after. No labels are needed. The head belongs to the model.
    """
    check_writable(out)
    with option_errors():
        settings = SamplingConfig(seed=seed)
        if max_tokens < settings.least_tokens:
            raise ConfigError(
                f"--max-tokens must be {settings.least_tokens} or more, so that a trace has a past "
                f"and a future; got {max_tokens}"
            )
    found = _traces(traces or [], synthetic, limit)
    llm = load_llm(model, dtype, device)
    sequences = [(trace, _token_ids(trace, llm)[:max_tokens]) for trace in found]
    usable = [each for each in sequences if each[1].size >= settings.least_tokens]
    groups = _groups([trace for trace, _ in usable])
    if len(set(groups)) < 2:
        raise TraceError(
            f"expected two traces or more of at least {settings.least_tokens} tokens, got "
            f"{len(usable)}; give longer --traces, or --synthetic 8"
        )
    total = sum(ids.size for _, ids in usable)
    samples = []
    with progress_bar("Reading", "tokens") as report:
        num_done = 0

        def on_tokens(num_tokens: int) -> None:
            nonlocal num_done
            num_done += num_tokens
            report(num_done, total)

        for _, ids in usable:
            samples.append(gather_samples(llm, ids, settings, on_tokens))
    made_by = f"memdecay foresee, {len(usable)} traces, {total} tokens"
    fit = fit_head(
        [each for each in samples if each is not None], groups, llm_fingerprint(llm.model), made_by
    )
    save_head(out, fit.head)
    _print(fit, len(usable), out)


def _traces(paths: Sequence[Path], num_synthetic: int, limit: int | None) -> list[Trace]:
    found = [trace for path in paths for trace in read_traces(path)]
    found += [long_session(seed, _SESSION_CHARACTERS) for seed in range(num_synthetic)]
    if not found:
        raise TraceError("there is nothing to learn from; give --traces, or --synthetic 8")
    return found[:limit]


def _token_ids(trace: Trace, llm: LanguageModel) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    messages = [message.to_openai() for message in trace.messages]
    ids = tokenize(render(messages, llm.tokenizer), llm.tokenizer).input_ids
    return ids.astype(np.int64)


def _groups(traces: Sequence[Trace]) -> list[str]:
    """Leave sources out together, or traces where there is one source only."""
    sources = [trace.source or "" for trace in traces]
    return sources if len(set(sources)) > 1 else [trace.id for trace in traces]


def _print(fit: ForesightFit, num_traces: int, out: Path) -> None:
    console = output_console()
    console.print(
        f"Rank correlation with the attention that came, on traces left out of the fit "
        f"({num_traces} in all): {fit.correlation:.3f}; from attention so far alone: "
        f"{fit.correlation_of_attention:.3f}"
    )
    console.print(f"Foresight head: {out}", markup=False)
