"""`memdecay memory`: will it fit?"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.table import Table

from memdecay.classifier.llm import load_llm_shape, resolve_device, resolve_dtype
from memdecay.cli.byte_sizes import parse_bytes, show_bytes
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console
from memdecay.cli.options import DeviceOption, DtypeOption, ModelOption
from memdecay.serving.measuring import measure_activations
from memdecay.serving.sizing import (
    Load,
    ModelShape,
    Sizes,
    estimate_sizes,
    most_sessions,
    read_shape,
)

EPILOG = """
[bold]Examples[/bold]

memdecay memory --model smollm2 --budget 2048 --sessions 16

memdecay memory --model ./my-model --budget 8192 --sessions 64 --available 80GiB --dtype bfloat16
"""


def memory(
    model: ModelOption = "smollm2",
    budget: Annotated[
        int, typer.Option("--budget", min=1, help="Tokens that each session keeps.")
    ] = 2048,
    sessions: Annotated[
        int, typer.Option("--sessions", min=1, help="Sessions on the device at one time.")
    ] = 16,
    chunk_tokens: Annotated[
        int, typer.Option("--chunk-tokens", min=1, help="Most tokens read in one forward.")
    ] = 256,
    available: Annotated[
        str | None,
        typer.Option("--available", help="Memory to fit in, such as 24GiB; else the device's own."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Load the model and measure (CUDA only).")
    ] = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Say whether a model and its sessions fit into memory, and how many sessions would."""
    torch_device = resolve_device(device)
    torch_dtype = resolve_dtype(dtype, torch_device)
    limit = parse_bytes(available, "--available") if available else _memory_of(torch_device)
    llm_config, num_parameters = load_llm_shape(model)
    shape = read_shape(llm_config, num_parameters)
    load = Load(sessions, budget, chunk_tokens, torch_dtype.itemsize)
    sizes = estimate_sizes(shape, load)
    if measure:
        measured = measure_activations(model, dtype, torch_device, chunk_tokens)
        sizes = dataclasses.replace(sizes, activations=measured)
    most = most_sessions(shape, load, limit)
    if as_json:
        typer.echo(json.dumps(_as_data(sizes, limit, most), indent=2))
    else:
        _print(sizes, shape, load, limit, most, is_measured=measure)


def _memory_of(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # A container may have less than its machine.
    limit_file = Path("/sys/fs/cgroup/memory.max")
    limit = limit_file.read_text().strip() if limit_file.is_file() else ""
    return min(machine, int(limit)) if limit.isdecimal() else machine


def _as_data(sizes: Sizes, limit: int, most: int) -> dict[str, int | bool]:
    return dataclasses.asdict(sizes) | {
        "total": sizes.total,
        "available": limit,
        "fits": sizes.total <= limit,
        "most_sessions": most,
    }


def _print(
    sizes: Sizes, shape: ModelShape, load: Load, limit: int, most: int, *, is_measured: bool
) -> None:
    table = Table()
    table.add_column("part")
    table.add_column("bytes", justify="right")
    table.add_column("how")
    size = load.bytes_per_value
    for name, part, how in (
        ("weights", sizes.weights, f"{shape.num_parameters:,} of {size} bytes"),
        (
            "KV cache",
            sizes.kv,
            f"2 · {shape.num_layers} layers · {shape.num_key_value_heads} heads · "
            f"{shape.head_dim} · {size} bytes = {show_bytes(sizes.kv_per_token)} a token; "
            f"{load.budget_tokens:,} tokens · {load.num_sessions} sessions",
        ),
        (
            "activations",
            sizes.activations,
            f"{'measured' if is_measured else 'about'}, for {load.chunk_tokens} tokens at a time",
        ),
        ("total", sizes.total, f"of {show_bytes(limit)}"),
    ):
        table.add_row(name, show_bytes(part), how)
    console = output_console()
    console.print(table)
    room = f"{most:,} sessions of {load.budget_tokens:,} tokens would fit"
    if sizes.total <= limit:
        console.print(f"[bold green]It fits[/bold green]; {room}.")
    else:
        console.print(
            f"[bold red]It does not fit[/bold red]: {show_bytes(sizes.total - limit)} too much; "
            f"{room}."
        )
