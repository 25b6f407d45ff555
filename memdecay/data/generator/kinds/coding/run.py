"""Coding with a shell: find the bug of an issue, reproduce it, mend it, run the tests."""

from __future__ import annotations

from memdecay.data.generator.builder import (
    TraceBuilder,
)
from memdecay.data.generator.kinds.coding.steps import repair
from memdecay.data.generator.kinds.coding.task import brief, finish
from memdecay.data.generator.kinds.coding.terminal import Shell
from memdecay.data.generator.vocabulary.bugs import BUGS
from memdecay.data.generator.wording import Wording

_STYLES = (
    "bash_block",
    "bash_block",
    "openai",
    "openai_without_ids",
    "xml",
    "nested_xml",
    "tool_call",
)


def write_coding(wording: Wording, builder: TraceBuilder) -> None:
    """Write the repair of one bug."""
    bug = wording.pick(BUGS)
    style = wording.pick(_STYLES)
    root = wording.pick(["/workspace/", "/repo/", "/home/dev/src/", "/testbed/"]) + bug.repository
    terminal = Shell(wording, builder, style, root)
    brief(wording, builder, bug, terminal)
    repair(wording, terminal, bug, num_extra_steps=wording.number(0, 3))
    finish(wording, builder, bug, terminal)
