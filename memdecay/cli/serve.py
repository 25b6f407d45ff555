"""`memdecay serve`: an OpenAI-compatible server whose sessions remember within a budget."""

from __future__ import annotations

import importlib.util
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.embedded import EMBEDDED_NAME
from memdecay.classifier.errors import ConfigError
from memdecay.classifier.llm import LanguageModel, load_llm, resolve_device
from memdecay.classifier.pretrained import DEFAULT_NAME, classifier_folder, pretrained_folder
from memdecay.classifier.region_settings import RegionSettings
from memdecay.cli.byte_sizes import parse_bytes, show_bytes
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
from memdecay.runtime.config import PACKAGED, CacheConfig
from memdecay.runtime.policies import POLICIES
from memdecay.serving.api.config import ServerConfig, check_host
from memdecay.serving.api.keys import add_key, load_keys
from memdecay.serving.api.logs import JsonFormatter
from memdecay.serving.engine.config import EngineConfig, SharedPrompt
from memdecay.serving.engine.engine import Engine
from memdecay.serving.engine.model.tagging import ServedTagger
from memdecay.serving.engine.prompt_file import read_shared_prompts

_CACHE = CacheConfig(budget_tokens=2048)
_ENGINE = EngineConfig(cache=_CACHE)
_SERVER = ServerConfig()
_LOG_FORMATS = ("json", "text")
_PACKAGES = ("fastapi", "uvicorn", "prometheus_client")
EPILOG = """
[bold]Examples[/bold]

memdecay serve --model smollm2 --classifier runs/mine --budget 2048

memdecay serve --model ./my-model --tagger rules --prompts prompts.toml

memdecay serve --api-keys keys.toml --new-key alice       (makes a key, shows it once, ends)

memdecay serve --api-keys keys.toml --host 0.0.0.0 --port 8000
"""


def serve(
    model: ModelOption = "smollm2",
    classifier: Annotated[
        Path | None,
        typer.Option(
            "--classifier",
            help=f"Classifier folder; if not given, {DEFAULT_NAME}, the one packaged for "
            f"{EMBEDDED_NAME}. Tokens of other models have no region without one.",
        ),
    ] = None,
    tagger: TaggerOption = BY_CLASSIFIER,
    regions: RegionsOption = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; others than 127.0.0.1 need keys.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8000,
    api_keys: Annotated[
        Path | None, typer.Option("--api-keys", help="File of hashed API keys (TOML).")
    ] = None,
    new_key: Annotated[
        str | None,
        typer.Option("--new-key", help="Add a key for this tenant to the file, show it and end."),
    ] = None,
    budget: Annotated[
        int, typer.Option("--budget", min=1, help="Tokens that each session keeps.")
    ] = _CACHE.budget_tokens,
    policy: Annotated[
        str, typer.Option("--policy", help=f"What to forget first: {', '.join(POLICIES)}.")
    ] = _CACHE.policy,
    high_watermark: Annotated[
        float, typer.Option("--high-watermark", help="Share of the budget where eviction starts.")
    ] = _CACHE.high_watermark,
    low_watermark: Annotated[
        float, typer.Option("--low-watermark", help="Share of the budget it goes down to.")
    ] = _CACHE.low_watermark,
    early_watermark: EarlyWatermarkOption = _CACHE.early.watermark,
    early_margin: EarlyMarginOption = _CACHE.early.margin,
    block_tokens: BlockTokensOption = _CACHE.block_tokens,
    late_tagging: LateTaggingOption = _CACHE.late_tagging.max_share,
    foresight: ForesightOption = PACKAGED,
    pack_ahead: PackAheadOption = _CACHE.fading.staging_share,
    max_sessions: Annotated[
        int, typer.Option("--max-sessions", min=1, help="Sessions on the device.")
    ] = _ENGINE.max_sessions,
    max_running: Annotated[
        int, typer.Option("--max-running", min=1, help="Requests that run at the same time.")
    ] = _ENGINE.max_running,
    max_waiting: Annotated[
        int, typer.Option("--max-waiting", min=1, help="Requests that wait; more are refused.")
    ] = _ENGINE.max_waiting,
    kv_memory: Annotated[
        str | None, typer.Option("--kv-memory", help="Memory of all sessions, such as 4GiB.")
    ] = None,
    cpu_memory: Annotated[
        str | None,
        typer.Option(
            "--cpu-memory",
            help="CPU memory for idle sessions; if not given, 4GiB beside a GPU, else none.",
        ),
    ] = None,
    disk: Annotated[Path | None, typer.Option("--disk", help="Folder for idle sessions.")] = None,
    disk_memory: Annotated[
        str, typer.Option("--disk-memory", help="Disk space for idle sessions.")
    ] = "16GiB",
    prefix_cache: Annotated[
        str, typer.Option("--prefix-cache", help="Memory of the prefix cache; 0 for none.")
    ] = "256MiB",
    session_ttl: Annotated[
        float, typer.Option("--session-ttl", min=0, help="Seconds an idle session lives; 0: ever.")
    ] = _ENGINE.session_ttl_s or 0.0,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="Longest answer where none is asked for.")
    ] = _ENGINE.default_max_tokens,
    system: Annotated[
        list[str] | None,
        typer.Option("--system", help="System prompt to read before the first request."),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts",
            help="TOML file of prompts to read before the first request, for all tenants or one.",
        ),
    ] = None,
    compress_tools: Annotated[
        int | None,
        typer.Option(
            "--compress-tools", min=1, help="Compress tool results longer than N characters."
        ),
    ] = None,
    max_requests: Annotated[
        int, typer.Option("--max-requests", min=1, help="Open requests of all tenants.")
    ] = _SERVER.max_requests,
    max_tenant_requests: Annotated[
        int | None, typer.Option("--max-tenant-requests", min=1, help="Open requests of each.")
    ] = None,
    max_body: Annotated[
        str, typer.Option("--max-body", help="Largest body of a request.")
    ] = "8MiB",
    shutdown_timeout: Annotated[
        float, typer.Option("--shutdown-timeout", min=0, help="Seconds for running requests.")
    ] = _SERVER.shutdown_timeout_s,
    alias: Annotated[
        list[str] | None, typer.Option("--alias", help="Another name of the model for clients.")
    ] = None,
    log_format: Annotated[
        str, typer.Option("--log-format", help="json, or text for people.")
    ] = "json",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Serve a model with OpenAI's API; sessions keep their caches and forget within a budget."""
    if new_key is not None:
        if api_keys is None:
            raise ConfigError("--new-key needs the file to write to; give --api-keys FILE")
        typer.echo(add_key(api_keys, new_key))
        return
    _check_installed()
    if log_format not in _LOG_FORMATS:
        raise ConfigError(f"--log-format must be {' or '.join(_LOG_FORMATS)}, got {log_format!r}")
    keys = load_keys(api_keys) if api_keys is not None else None
    check_host(host, has_keys=keys is not None)
    if classifier is not None:
        classifier = classifier_folder(classifier, model)
    elif tagger == BY_CLASSIFIER:
        classifier = pretrained_folder(model)
    check_tagger(tagger, classifier, regions)
    settings = load_regions(regions)
    with option_errors():
        server_config = ServerConfig(
            max_body_bytes=parse_bytes(max_body, "--max-body"),
            max_requests=max_requests,
            max_tenant_requests=max_tenant_requests,
            shutdown_timeout_s=shutdown_timeout,
            compress_tools=compress_tools,
            aliases=tuple(alias or ()),
        )
        engine_config = EngineConfig(
            cache=apply_regions(
                with_cache_options(
                    CacheConfig(
                        budget_tokens=budget,
                        policy=policy,
                        high_watermark=high_watermark,
                        low_watermark=low_watermark,
                    ),
                    block_tokens,
                    late_tagging,
                    pack_ahead,
                    (early_watermark, early_margin),
                ),
                settings,
            ),
            max_sessions=max_sessions,
            max_running=max_running,
            max_waiting=max_waiting,
            kv_memory_bytes=parse_bytes(kv_memory, "--kv-memory") if kv_memory else None,
            cpu_memory_bytes=_cpu_memory_bytes(cpu_memory, device),
            disk_folder=disk,
            disk_bytes=parse_bytes(disk_memory, "--disk-memory"),
            prefix_cache_bytes=parse_bytes(prefix_cache, "--prefix-cache"),
            session_ttl_s=session_ttl or None,
            default_max_tokens=max_tokens,
            shared_prompts=_shared_prompts(system, prompts),
        )
    check_policy(engine_config.cache, foresight, model)
    # Imported here: the packages of the extra may be missing.
    from memdecay.serving.api.app import create_app
    from memdecay.serving.api.server import listen, serve_until_stopped, url_of

    with listen(host, port) as listener:
        llm = load_llm(model, dtype, device)
        cache = replace(engine_config.cache, foresight=load_foresight(foresight, llm))
        engine_config = replace(engine_config, cache=cache)
        if log_format == "json":
            _log_as_json()
        engine = Engine(llm, engine_config, _tagger(tagger, classifier, settings, llm))
        app = create_app(engine, server_config, keys)
        url = url_of(listener)
        typer.echo(f"memdecay serves {model} at {url}/v1 (page: {url}/, API: {url}/docs)")
        typer.echo(f"Sessions take at most {show_bytes(engine.most_kv_bytes)} of KV memory.")
        serve_until_stopped(app, engine, listener, server_config)


def _cpu_memory_bytes(text: str | None, device: str) -> int:
    if text is not None:
        return parse_bytes(text, "--cpu-memory")
    # Where the model is on the CPU itself, moving a session there would free nothing.
    return 0 if resolve_device(device).type == "cpu" else 4 << 30


def _shared_prompts(system: list[str] | None, prompts: Path | None) -> tuple[SharedPrompt, ...]:
    public = tuple(
        SharedPrompt(messages=({"role": "system", "content": text},)) for text in system or ()
    )
    return public + (read_shared_prompts(prompts) if prompts is not None else ())


def _tagger(
    tagger: str, folder: Path | None, settings: RegionSettings | None, llm: LanguageModel
) -> ServedTagger | None:
    artifact = load_artifact(folder) if folder is not None else None
    made = make_tagger(tagger, artifact, settings, llm)
    assert made is None or isinstance(made, ServedTagger), "both kinds of taggers can be saved"
    return made


def _check_installed() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"memdecay serve needs {', '.join(missing)}; install them with "
            "pip install 'memdecay[serve]'"
        )


def _log_as_json() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("memdecay", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
