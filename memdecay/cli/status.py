"""`memdecay status`: a running server in the terminal."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from memdecay.classifier.errors import ConfigError
from memdecay.classifier.regions import REGION_LABELS
from memdecay.cli.byte_sizes import show_bytes
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console
from memdecay.cli.report import REGION_COLOURS

_TIMEOUT_S = 10.0
KEY_VARIABLE = "MEMDECAY_API_KEY"
EPILOG = """
[bold]Examples[/bold]

memdecay status http://127.0.0.1:8000

memdecay status http://127.0.0.1:8000 --watch 2
"""


def status(
    url: Annotated[
        str, typer.Argument(help="Address of the server.", metavar="URL")
    ] = "http://127.0.0.1:8000",
    api_key: Annotated[
        str | None, typer.Option("--api-key", envvar=KEY_VARIABLE, help="API key of a tenant.")
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option("--watch", min=0.2, help="Show it again every so many seconds."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Show a running server: its requests, its memory and your sessions."""
    if as_json:
        data = {"status": _read(url, "/v1/status", api_key)}
        data["sessions"] = _read(url, "/v1/sessions", api_key)["data"]
        typer.echo(json.dumps(data, indent=2))
        return
    console = output_console()
    if watch is None:
        console.print(_picture(url, api_key))
        return
    with Live(_picture(url, api_key), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(watch)
            live.update(_picture(url, api_key), refresh=True)


def _read(url: str, path: str, api_key: str | None) -> dict[str, Any]:
    """Ask the server.

    Raises:
        ConfigError: The address is none, nobody answers there, or the answer is a refusal.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"expected an address such as http://127.0.0.1:8000, got {url!r}")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    request = urllib.request.Request(url.rstrip("/") + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            data = json.load(answer)
    except urllib.error.HTTPError as error:
        raise ConfigError(f"{url} refused: {_reason(error)}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ConfigError(
            f"no server answers at {url} ({reason}); start one with `memdecay serve`"
        ) from error
    except ValueError as error:
        raise ConfigError(f"what answers at {url} is no memdecay server") from error
    if not isinstance(data, dict):
        raise ConfigError(f"what answers at {url} is no memdecay server")
    return data


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        message = json.load(error)["error"]["message"]
    except (ValueError, KeyError, TypeError, OSError):
        return f"status {error.code}"
    hint = f" (--api-key or ${KEY_VARIABLE})" if error.code == 401 else ""
    return f"{message}{hint}"


def _picture(url: str, api_key: str | None) -> Group:
    figures = _read(url, "/v1/status", api_key)
    sessions = _read(url, "/v1/sessions", api_key)["data"]
    return Group(_headline(figures), _memory_table(figures), _session_table(sessions))


def _headline(figures: dict[str, Any]) -> Text:
    prompt = figures["prompt_tokens_total"]
    cached = f"{figures['cached_tokens_total'] / prompt:.0%}" if prompt else "none"
    return Text(
        f"{figures['model']}: {figures['num_running']} running, {figures['num_waiting']} waiting, "
        f"{prompt:,} tokens read ({cached} cached), {figures['generated_tokens_total']:,} written"
    )


def _memory_table(figures: dict[str, Any]) -> Table:
    table = Table(title="Memory", title_justify="left")
    table.add_column("tier")
    for name in ("entries", "used", "limit"):
        table.add_column(name, justify="right")
    for name, tier in {**figures["tiers"], "prefix cache": figures["prefix_cache"]}.items():
        limit = tier["limit_bytes"]
        table.add_row(
            name,
            str(tier["num_sessions"]),
            show_bytes(tier["used_bytes"]),
            "none" if limit is None else show_bytes(limit),
        )
    return table


def _session_table(sessions: list[dict[str, Any]]) -> Table:
    table = Table(title="Your sessions", title_justify="left")
    table.add_column("session", overflow="fold")
    for name in ("tier", "seen", "kept", "evicted", "memory", "idle"):
        table.add_column(name, justify="right")
    table.add_column("kept by region")
    for session in sessions:
        table.add_row(
            Text(session["id"]),
            "running" if session["is_running"] else session["tier"],
            f"{session['tokens_seen']:,}",
            f"{session['tokens_kept']:,}",
            f"{session['tokens_evicted']:,}",
            show_bytes(session["kv_bytes"]),
            f"{session['idle_s']:.0f} s",
            _regions(session["kept_per_region"]),
        )
    return table


def _regions(kept: dict[str, int]) -> Text:
    text = Text()
    for label in REGION_LABELS:
        if count := kept.get(label, 0):
            text.append(f"{label.split('_')[0]} {count:,} ", style=REGION_COLOURS[label])
    return text
