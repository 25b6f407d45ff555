"""Labelled agent runs written by rules: their regions are exact by construction."""

from memdecay.data.generator.generate import KINDS, generate_trace, generate_traces, is_generated
from memdecay.data.generator.packaged import (
    PACKAGED_NUM_TRACES,
    PACKAGED_SEED,
    load_synthetic_traces,
    packaged_path,
)
from memdecay.data.generator.session import long_session

__all__ = [
    "KINDS",
    "PACKAGED_NUM_TRACES",
    "PACKAGED_SEED",
    "generate_trace",
    "generate_traces",
    "is_generated",
    "load_synthetic_traces",
    "long_session",
    "packaged_path",
]
