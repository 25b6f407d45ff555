"""The beginning and the end of a coding run: rules, issue, verdict."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    TraceBuilder,
    context,
    decision,
    instruction,
)
from memdecay.data.generator.dialects import describe_tools
from memdecay.data.generator.kinds.coding.terminal import TOOLS, Shell
from memdecay.data.generator.records import line_pieces
from memdecay.data.generator.vocabulary.bugs import Bug
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.wording import Wording


def brief(wording: Wording, builder: TraceBuilder, bug: Bug, terminal: Shell) -> None:
    """Write the rules of the scaffold and the issue."""
    rules = [
        "{One command|A single command} per answer; {wait for its output|its output comes back to you}.",
        "Do not {change|touch} the {existing tests|test files}.",
        "Interactive editors {such as vim|} are not available.",
        "{Keep the change|Your patch should be} as small as possible.",
        "{Directory changes do not persist|Every command runs in a new shell}; use absolute paths.",
        "{Explain|Say} in one or two sentences what you want to {find out|do} before each command.",
        "When {everything passes|you are sure}, {submit|finish with the submit command}.",
    ]
    role = wording(
        "You are {a careful software engineer|an autonomous programmer|a coding agent} {at a terminal|with access to a shell}."
    )
    system = role + "\n" + "\n".join("- " + wording(rule) for rule in wording.some(rules, 3, 7))
    if wording.chance(0.85):
        system += "\n\n" + guidelines(wording, 2, 4)
    if terminal.dialect is None:
        system += "\n\nAnswer with exactly one code block:\n\n```bash\nyour_command_here\n```"
    elif not terminal.dialect.is_structured or wording.chance(0.4):
        system += "\n\n" + describe_tools(wording, TOOLS)
    issue = "\n\n".join(wording(paragraph) for paragraph in bug.issue)
    if wording.chance(0.6):
        issue += "\n\n" + _evidence(wording, bug)
    frame = wording.pick(
        [
            ("<issue>\n", "\n</issue>"),
            ("Please solve this issue.\n\nISSUE:\n", ""),
            ("# Task\n", ""),
            ("<pr_description>\n", "\n</pr_description>"),
        ]
    )
    task = (
        frame[0]
        + issue
        + frame[1]
        + wording(
            "\n\n{The repository is in {root}.|You are in {root}.} {Make the failing test {test} pass.|Fix the cause, not the symptom.}",
            root=terminal.root,
            test=bug.test,
        )
    )
    if wording.chance(0.3):
        task += wording(
            "\n\n{Suggested plan|Recommended steps}:\n1. Find the code in question.\n2. Reproduce the problem.\n3. {Change|Edit} the source.\n4. Run the tests again."
        )
    pieces = [instruction(task)]
    if wording.chance(0.4):
        versions = "\n".join(
            f"{name:<14}: {wording.number(0, 30)}.{wording.number(0, 20)}.{wording.number(0, 9)}"
            for name in wording.some(
                [
                    "commit date",
                    "compiler",
                    "libc",
                    "locale data",
                    "openssl",
                    "zlib",
                    "sqlite",
                    "kernel",
                    "icu",
                ],
                4,
                9,
            )
        )
        pieces.append(
            context(
                f"\n\n<details>\nInstalled versions\n------------------\n{versions}\n</details>"
            )
        )
    if wording.chance(0.85):
        builder.add("system", instruction(system))
    else:
        pieces.insert(0, instruction(system + "\n\n"))
    builder.add("user", *pieces)


def _evidence(wording: Wording, bug: Bug) -> str:
    """Return what a reporter pastes: the failure, and perhaps the code that seems to be wrong."""
    parts = [
        wording("{What I get|Output|Traceback}:\n```\n")
        + "\n".join([*bug.frames, bug.error])
        + "\n```"
    ]
    if wording.chance(0.5):
        code = "\n".join(bug.before)
        parts.append(
            wording("{I looked at|The relevant part of} `{path}`:\n```\n", path=bug.path)
            + f"{code}\n```"
        )
    return "\n\n".join(wording.shuffled(parts))


def finish(wording: Wording, builder: TraceBuilder, bug: Bug, terminal: Shell) -> None:
    """Write the verdict, and hand the change in where the scaffold has a tool for it."""
    verdict = decision(
        wording(
            "{All tests pass, the issue is solved|The fix works}: {why}. {The change is limited to {path}|Only {path} was touched}.",
            why=bug.diagnosis[1],
            path=bug.path,
        )
    )
    if terminal.dialect is None or not terminal.dialect.is_structured:
        builder.add("assistant", verdict)
        return
    terminal.dialect.call(builder, "submit", {}, verdict)
    if wording.chance(0.5):
        diff = [
            f"diff --git a/{bug.path} b/{bug.path}",
            f"index {wording.code('~~~~~~~')}..{wording.code('~~~~~~~')} 100644",
            f"--- a/{bug.path}",
            f"+++ b/{bug.path}",
            *("-" + line for line in bug.before),
            *("+" + line for line in bug.after),
        ]
        wanted = set(range(4, len(diff)))
        terminal.dialect.result(builder, *line_pieces(diff, wanted, has_final_newline=False))
