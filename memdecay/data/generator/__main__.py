"""Developer command that writes the packaged runs: ``python -m memdecay.data.generator``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from memdecay.classifier.errors import MemdecayError
from memdecay.data.generator.generate import generate_traces
from memdecay.data.generator.packaged import PACKAGED_NUM_TRACES, PACKAGED_SEED
from memdecay.data.jsonl import write_traces


def main(arguments: Sequence[str] | None = None) -> None:
    """Write generated runs to a file; bad options and failed writes exit with code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m memdecay.data.generator",
        description="Write labelled agent runs to a JSONL file (compressed if it ends in .gz).",
    )
    parser.add_argument("--num-traces", type=int, default=PACKAGED_NUM_TRACES, metavar="N")
    parser.add_argument("--seed", type=int, default=PACKAGED_SEED, metavar="S")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        write_traces(generate_traces(options.num_traces, options.seed), options.out)
    except (MemdecayError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
