"""`memdecay bench serve`: agents that hold long conversations with this server and with others."""

from __future__ import annotations

import importlib.util
import json
import urllib.request
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.embedded import EMBEDDED_NAME
from memdecay.classifier.errors import ConfigError, ServerError
from memdecay.classifier.llm import (
    load_llm_shape,
    load_tokenizer,
    resolve_device,
    resolve_dtype,
)
from memdecay.classifier.pretrained import classifier_folder
from memdecay.classifier.storage import check_writable
from memdecay.cli.byte_sizes import parse_bytes
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console, progress_bar
from memdecay.cli.options import DeviceOption, DtypeOption, ModelOption, option_errors
from memdecay.cli.status import KEY_VARIABLE
from memdecay.data.generator import load_synthetic_traces
from memdecay.data.jsonl import read_traces
from memdecay.data.trace import Trace
from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.contestants import (
    CONTESTANTS,
    RUNNING,
    CacheChoice,
    Launch,
    ModelChoice,
    make_launch,
)
from memdecay.serving.bench.workload import AgentScript, make_scripts
from memdecay.serving.sizing import kv_bytes_per_token, read_shape

_LOAD = LoadConfig()
_TIMEOUT_S = 10.0
_PACKAGES = ("httpx2", "fastapi", "uvicorn", "prometheus_client")
_TRACES_PER_AGENT = 16
EPILOG = f"""
Contestants: {"; ".join(f"[bold]{name}[/bold] is {what}" for name, what in CONTESTANTS.items())}.

[bold]Examples[/bold]

memdecay bench serve --agents 2 --rounds 10 --out runs/serve-small

memdecay bench serve --traces traces.jsonl --time-limit 900 --out runs/serve

memdecay bench serve --base-url http://127.0.0.1:8000 --out runs/mine
"""


def serve(
    out: Annotated[Path, typer.Option("--out", help="Folder for results, tables and plots.")],
    contestants: Annotated[
        str | None,
        typer.Option(
            "--contestants",
            help=f"What to measure, separated by commas: {', '.join(CONTESTANTS)}; all of them if "
            "left out, none beside --base-url.",
        ),
    ] = None,
    traces: Annotated[
        list[Path] | None,
        typer.Option(
            "--traces",
            help="Agent runs (JSONL) that the rounds come from; may be given several times. The "
            "packaged ones if left out.",
        ),
    ] = None,
    agents: Annotated[
        int, typer.Option("--agents", min=1, help="Agents at the same time.")
    ] = _LOAD.num_agents,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, help="Requests of each agent.")
    ] = _LOAD.num_rounds,
    dump_round: Annotated[
        int, typer.Option("--dump-round", min=1, help="Round of the long tool result.")
    ] = _LOAD.dump_round,
    dump_tokens: Annotated[
        int, typer.Option("--dump-tokens", min=1, help="Tokens of the long tool result.")
    ] = _LOAD.dump_tokens,
    round_tokens: Annotated[
        int | None,
        typer.Option(
            "--round-tokens",
            min=1,
            help="Most tokens of another round's message; what fits the context if left out.",
        ),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="Most tokens of an answer.")
    ] = _LOAD.max_tokens,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            min=1,
            help="Seconds after which a contestant's agents begin no further round; compared are "
            "the rounds that all have done.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds of silence that fail a round.")
    ] = _LOAD.timeout_s,
    budget: Annotated[
        int, typer.Option("--budget", min=1, help="Tokens that memdecay keeps of each session.")
    ] = 2048,
    kv_memory: Annotated[
        str | None,
        typer.Option(
            "--kv-memory",
            help="Memory of all sessions of memdecay, such as 512MiB; the budget of as many "
            "sessions as there are agents if left out.",
        ),
    ] = None,
    classifier: Annotated[
        Path | None, typer.Option("--classifier", help="Classifier folder of memdecay's servers.")
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url", help="Measure the server that runs there, such as http://127.0.0.1:8000."
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option("--api-key", envvar=KEY_VARIABLE, help="API key for the server that runs."),
    ] = None,
    redo: Annotated[
        bool, typer.Option("--redo", help="Measure again what was measured already.")
    ] = False,
    model: ModelOption = EMBEDDED_NAME,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Measure this server with many agents, beside a full cache and transformers' own server.

    Each agent sends round after round of one conversation, with a long tool result among the
    first. One server runs at a time; a contestant that is done is not measured again when the
    same command is given again.
    """
    _check_installed()
    names = _names(contestants, base_url)
    check_writable(out, is_folder=True)
    with option_errors():
        load = LoadConfig(
            num_agents=agents,
            num_rounds=rounds,
            dump_round=dump_round,
            dump_tokens=dump_tokens,
            round_tokens=round_tokens,
            max_tokens=max_tokens,
            timeout_s=timeout,
            time_limit_s=time_limit,
        )
    if classifier is not None:
        load_artifact(classifier_folder(classifier, model))  # Else a server finds out, later.
    torch_device = resolve_device(device)
    torch_dtype = resolve_dtype(dtype, torch_device)
    choice = ModelChoice(model, str(torch_dtype).removeprefix("torch."), str(torch_device))
    llm_config, num_parameters = load_llm_shape(model)
    shape = read_shape(llm_config, num_parameters)
    per_token = kv_bytes_per_token(shape, torch_dtype.itemsize)
    cache = CacheChoice(
        budget=budget,
        kv_memory_bytes=(
            parse_bytes(kv_memory, "--kv-memory") if kv_memory else agents * budget * per_token
        ),
        max_sessions=agents + 1,
        classifier=None if classifier is None else str(classifier),
    )
    launches = {name: make_launch(name, choice, cache) for name in names}
    scripts = make_scripts(
        [[message.to_openai() for message in trace.messages] for trace in _traces(traces, agents)],
        load,
        load_tokenizer(model),
        int(llm_config.max_position_embeddings),
    )
    _measure(out, scripts, load, choice, cache, launches, base_url, api_key, is_redone=redo)


def _measure(
    out: Path,
    scripts: tuple[AgentScript, ...],
    load: LoadConfig,
    model: ModelChoice,
    cache: CacheChoice,
    launches: Mapping[str, Launch],
    base_url: str | None,
    api_key: str | None,
    *,
    is_redone: bool,
) -> None:
    # Imported here: the packages of the extra may be missing.
    from memdecay.serving.bench.report import equal_figures, serving_table, write_serving_report
    from memdecay.serving.bench.run import ServingBenchmark

    benchmark = ServingBenchmark(out, scripts, load, is_redone=is_redone)
    runs = []
    if base_url is not None:
        target = _running_target(base_url, api_key)
        with progress_bar(base_url, "rounds") as progress:
            runs.append(benchmark.measure_running(RUNNING, target, progress))
    for name, launch in launches.items():
        with progress_bar(CONTESTANTS[name], "rounds") as progress:
            runs.append(benchmark.measure(name, launch, progress))
    report = write_serving_report(out, runs, load, model, cache)
    console = output_console()
    console.print(serving_table(equal_figures(runs)))
    console.print(f"Report: {report}")


def _names(contestants: str | None, base_url: str | None) -> list[str]:
    if contestants is None:
        return [] if base_url is not None else list(CONTESTANTS)
    names = list(dict.fromkeys(name.strip() for name in contestants.split(",") if name.strip()))
    for name in names:
        if name not in CONTESTANTS:
            raise ConfigError(f"unknown contestant {name!r}; expected {', '.join(CONTESTANTS)}")
    if not names and base_url is None:
        raise ConfigError("--contestants names nothing; give names separated by commas")
    return names


def _traces(paths: Sequence[Path] | None, num_agents: int) -> list[Trace]:
    if not paths:
        return load_synthetic_traces()
    return [
        trace
        for path in paths
        for trace in islice(read_traces(path), _TRACES_PER_AGENT * num_agents)
    ]


def _running_target(base_url: str, api_key: str | None) -> Any:
    """Ask a running server for its model.

    Raises:
        ConfigError: The address is none.
        ServerError: Nobody answers there as OpenAI's API does.
    """
    from memdecay.serving.bench.driver import Target

    if not base_url.startswith(("http://", "https://")):
        raise ConfigError(f"expected an address such as http://127.0.0.1:8000, got {base_url!r}")
    url = base_url.rstrip("/").removesuffix("/v1")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    request = urllib.request.Request(f"{url}/v1/models", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            first = json.load(answer)["data"][0]
            name, owner = str(first["id"]), str(first.get("owned_by", ""))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ServerError(
            f"no server with OpenAI's API answers at {base_url} ({error}); start one, or give its "
            "key with --api-key"
        ) from error
    is_memdecay = owner == "memdecay"
    fields = {"model": name, "stream_options": {"include_usage": True}}
    return Target(url, fields, headers, tells_memory=is_memdecay, can_salt=is_memdecay)


def _check_installed() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"memdecay bench serve needs {', '.join(missing)}; install them with "
            "pip install 'memdecay[serve]'"
        )
