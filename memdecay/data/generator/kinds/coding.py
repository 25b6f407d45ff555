"""Coding with a shell: find the bug of an issue, reproduce it, mend it, run the tests."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    context,
    decision,
    finding,
    instruction,
    surround,
)
from memdecay.data.generator.dialects import Dialect, Tool, describe_tools
from memdecay.data.generator.records import line_pieces
from memdecay.data.generator.vocabulary import shell
from memdecay.data.generator.vocabulary.bugs import BUGS, Bug
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.wording import Wording

TOOLS = (
    Tool("bash", "Run a command in a persistent shell.", {"command": "the command line"}),
    Tool("submit", "End the session and hand the changes in.", {}),
)
_STYLES = (
    "bash_block",
    "bash_block",
    "openai",
    "openai_without_ids",
    "xml",
    "nested_xml",
    "tool_call",
)


class Shell:
    """Writes commands and what they print, in the style of one scaffold."""

    def __init__(self, wording: Wording, builder: TraceBuilder, style: str, root: str) -> None:
        self.wording = wording
        self.builder = builder
        self.style = style
        self.root = root
        self.dialect = None if style == "bash_block" else Dialect(wording, style)
        self._marker = wording.pick(["THOUGHT: ", "", "Thought: ", "DISCUSSION\n"])
        self._status = wording.pick(["tags", "exit_line", "prompt", "bare"])
        self._has_costs = wording.chance(0.25)

    def run(self, thoughts: tuple[Piece, ...], command: str, *output: Piece, code: int = 0) -> None:
        """Add a command with the thoughts that lead to it, and its output."""
        before = surround(thoughts, self._marker, "\n") if thoughts else ()
        if self.dialect is None:
            fence = self.wording.pick(["bash", "bash", "sh"])
            self.builder.add("assistant", *before, finding(f"```{fence}\n{command}\n```"))
            self.builder.add("user", *self._framed(output, code))
            return
        if self.wording.chance(0.25):
            before = ()
        self.dialect.call(self.builder, "bash", {"command": command}, *before)
        self.dialect.result(self.builder, *self._framed(output, code))

    def edit(
        self, thoughts: tuple[Piece, ...], opening: str, body: list[str], closing: str
    ) -> None:
        """Add a command with a body of several lines; of a long body only the opening matters."""
        code = "\n".join(body)
        if (self.dialect is not None and self.dialect.is_structured) or len(body) <= 10:
            self.run(thoughts, f"{opening}\n{code}\n{closing}", finding("(no output)"))
            return
        before = surround(thoughts, self._marker, "\n") if thoughts else ()
        pieces = (finding(f"```bash\n{opening}\n"), context(f"{code}\n{closing}\n```"))
        self.builder.add("assistant", *before, *pieces)
        self.builder.add("user", *self._framed((finding("(no output)"),), 0))

    def _framed(self, output: tuple[Piece, ...], code: int) -> tuple[Piece, ...]:
        if self._status == "tags":
            head = finding(f"<returncode>{code}</returncode>\n<output>\n")
            framed = (head, *surround(output, suffix="\n</output>"))
        elif self._status == "exit_line":
            framed = (
                *surround(output, suffix="\n"),
                finding(f"[Command finished with exit code {code}]"),
            )
        elif self._status == "prompt":
            tail = f"\n(Open file: n/a)\n(Current directory: {self.root})\nbash-$"
            framed = (*output, context(tail))
        else:
            framed = output
        if self._has_costs:
            cost = f"\n{self.wording.number(900, 30000)} prompt tokens, {self.wording.number(40, 900)} completion tokens, $0.{self.wording.code('0###')} cost"
            framed = (*framed, context(cost))
        return framed


def write_coding(wording: Wording, builder: TraceBuilder) -> None:
    """Write the repair of one bug."""
    bug = wording.pick(BUGS)
    style = wording.pick(_STYLES)
    root = wording.pick(["/workspace/", "/repo/", "/home/dev/src/", "/testbed/"]) + bug.repository
    terminal = Shell(wording, builder, style, root)
    _brief(wording, builder, bug, terminal)
    repair(wording, terminal, bug, num_extra_steps=wording.number(0, 3))
    _finish(wording, builder, bug, terminal)


def repair(wording: Wording, terminal: Shell, bug: Bug, num_extra_steps: int) -> None:
    """Write the steps from the first look to the passing tests."""
    steps = [_look_around, _read_documents, _check_history]
    for step in wording.some(steps, num_extra_steps, num_extra_steps):
        step(wording, terminal, bug)
    _search(wording, terminal, bug)
    first, second = (_reproduce, _read_file) if wording.chance(0.5) else (_read_file, _reproduce)
    first(wording, terminal, bug)
    second(wording, terminal, bug)
    _mend(wording, terminal, bug)
    _run_tests(wording, terminal, bug)


def _brief(wording: Wording, builder: TraceBuilder, bug: Bug, terminal: Shell) -> None:
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


def _look_around(wording: Wording, terminal: Shell, bug: Bug) -> None:
    folder = bug.path.split("/", maxsplit=1)[0]
    lines = shell.listing(wording, folder)
    wanted = {i for i, line in enumerate(lines) if line.endswith(f" {folder}")}
    thought = wording(
        "{I'll start with an overview of the repository|Let me first see how the project is laid out|First step: look at the top level}."
    )
    terminal.run(
        (decision(thought),),
        f"ls -la {terminal.root}",
        finding(f"total {wording.number(60, 400)}\n"),
        *line_pieces(lines, wanted, has_final_newline=False),
    )


def _read_documents(wording: Wording, terminal: Shell, bug: Bug) -> None:
    sections = wording.shuffled(
        [
            "Installation",
            "Quick start",
            "Licence",
            "Changelog policy",
            "Sponsors",
            "Support",
            "Benchmarks",
        ]
    )[: wording.number(3, 6)]
    lines = [
        f"# {bug.repository}",
        "",
        wording("{A small library|A toolkit} {with few dependencies|that does one thing well}."),
        "",
    ]
    for section in sections:
        lines += [
            f"## {section}",
            "",
            wording(
                "{See the website for more.|This part is maintained by the community.|Contributions are welcome, please open a discussion first.|Nothing special here.}"
            ),
            "",
        ]
    lines += [
        "## Development",
        "",
        f"Run the tests with `{bug.runner}`.",
        f"The sources are in `{bug.path.rsplit('/', 1)[0]}`.",
    ]
    wanted = {len(lines) - 1, len(lines) - 2}
    thought = wording(
        "{Before I change anything I want to know how the tests are run|The README should say how tests are run, let me check}."
    )
    terminal.run(
        (decision(thought),),
        f"cat {terminal.root}/README.md",
        *line_pieces(lines, wanted, has_final_newline=False),
    )


def _check_history(wording: Wording, terminal: Shell, bug: Bug) -> None:
    subjects = [
        "Bump the linters",
        "Fix a typo in the guide",
        "Speed up start",
        "Prepare release",
        "Add a badge",
        "Drop an old runtime",
        "Rename a private helper",
        "Silence a warning",
        "Sort imports",
        "Pin the image of the docs job",
    ]
    lines = [f"{wording.code('~~~~~~~')} {subject}" for subject in wording.some(subjects, 6, 10)]
    place = wording.number(0, len(lines) - 1)
    name = bug.path.rsplit("/", 1)[1]
    lines.insert(place, f"{wording.code('~~~~~~~')} Simplify {name}")
    thought = wording(
        "{Perhaps a recent commit introduced it|Let me see what changed lately}, so {I check the log|the log comes first}."
    )
    terminal.run(
        (decision(thought),),
        f"git -C {terminal.root} log --oneline -n {len(lines)}",
        *line_pieces(lines, {place}, has_final_newline=False),
    )


def _search(wording: Wording, terminal: Shell, bug: Bug) -> None:
    if wording.chance(0.25):
        wrong = bug.symbol.upper() + "_IMPL"
        terminal.run(
            (decision(wording("{Let me grep for the name|Search for the implementation first}.")),),
            f"grep -rn '{wrong}' {terminal.root}",
            finding("(no output)"),
            code=1,
        )
    line = wording.number(20, 60)
    mentions = [
        f"docs/reference.md:{line * 3}:See `{bug.symbol}`.",
        f"CHANGELOG.md:{line}:- Document {bug.symbol}",
        f"{bug.path}:{line + 96}:    # {bug.symbol} is used here as well",
        f"docs/internals.md:{line + 7}:| {bug.symbol} | stable |",
        f"examples/demo.txt:4:calls {bug.symbol} twice",
    ]
    others = wording.some(mentions, 1, 5)
    rows = [f"{bug.path}:{line}:{bug.before[0]}", *others]
    guess = wording(bug.diagnosis[0])
    thought = wording(
        "{guess}. {Let me find where `{symbol}` is|I need the place of `{symbol}`}.",
        guess=guess,
        symbol=bug.symbol,
    )
    terminal.run(
        (decision(thought),),
        f"grep -rn '{bug.symbol}' {bug.path.split('/', maxsplit=1)[0]}",
        *line_pieces(rows, {0}, has_final_newline=False),
    )


def _read_file(wording: Wording, terminal: Shell, bug: Bug) -> None:
    above = list(bug.around) + shell.unrelated_code(wording, bug.path, wording.number(0, 3))
    below = shell.unrelated_code(wording, bug.path, wording.number(1, 6))
    lines = [*above, "", *bug.before, *below]
    start = len(above) + 1
    wanted = set(range(start, start + len(bug.before)))
    number = wording.pick(["{:>6}\t", "{}:", "{:>4}  ", ""])
    shown = [number.format(i) + line for i, line in enumerate(lines, 1)]
    command = (
        wording.pick(
            [f"cat -n {bug.path}", f"nl -ba {bug.path}", f"sed -n '1,{len(lines)}p' {bug.path}"]
        )
        if number
        else f"cat {bug.path}"
    )
    retold = []
    if wording.chance(0.5):
        retold = [
            context(
                wording(
                    "{The output shows|So far I have seen|We now know} {the name and the line of the match|one match that looks right}{, together with a few others|}. "
                )
            )
        ]
    thought = wording(
        "{I'll read|Next I open|Let me look at} {path} {to see the logic around it|for the details}.",
        path=bug.path,
    )
    terminal.run(
        (*retold, decision(thought)), command, *line_pieces(shown, wanted, has_final_newline=False)
    )


def _reproduce(wording: Wording, terminal: Shell, bug: Bug) -> None:
    noise = shell.passed_tests(wording, bug.runner, wording.number(2, 9))
    output = [context("\n".join([*noise, *bug.frames]) + "\n"), finding(bug.error)]
    thought = wording(
        "{I want to see the failure with my own eyes|Now reproduce it}{: run the test from the issue|}."
    )
    terminal.run((decision(thought),), _test_command(bug), *output, code=1)


def _mend(wording: Wording, terminal: Shell, bug: Bug) -> None:
    retold = context(
        wording(
            "{Looking at the code again|To recap what the file shows}: {lines}. ",
            lines="; ".join(f"`{line.strip()}`" for line in bug.before[:2]),
        )
    )
    cause = decision(
        wording(
            "{So the cause is clear|That confirms it|Found it}: {why}. {I will change it accordingly|The fix goes into {path}}.",
            why=bug.diagnosis[1],
            path=bug.path,
        )
    )
    thoughts = (retold, cause) if wording.chance(0.6) else (cause,)
    if wording.chance(0.5):
        body = [
            "from pathlib import Path",
            f"path = Path('{bug.path}')",
            "text = path.read_text()",
            f"old = {chr(10).join(bug.before)!r}",
            f"new = {chr(10).join(bug.after)!r}",
            "assert text.count(old) == 1",
            "path.write_text(text.replace(old, new))",
        ]
        terminal.edit(thoughts, "python - <<'EOF'", body, "EOF")
    else:
        body = [
            f"--- a/{bug.path}",
            f"+++ b/{bug.path}",
            "@@",
            *("-" + line for line in bug.before),
            *("+" + line for line in bug.after),
        ]
        terminal.edit(thoughts, "git apply --recount <<'PATCH'", body, "PATCH")


def _run_tests(wording: Wording, terminal: Shell, bug: Bug) -> None:
    count = wording.number(5, 18)
    noise = shell.passed_tests(wording, bug.runner, count)
    total = wording(
        "{count} passed{ in {seconds}s| (0 failed)|}",
        count=count + 1,
        seconds=f"{wording.number(0, 40)}.{wording.code('##')}",
    )
    thought = wording(
        "{Now the whole suite|Let me run all tests}{ to be sure that nothing else broke| again|}."
    )
    terminal.run((decision(thought),), bug.runner, context("\n".join(noise) + "\n"), finding(total))


def _test_command(bug: Bug) -> str:
    if bug.runner.startswith("go"):
        return f"go test ./... -run {bug.test} -v"
    if bug.runner.startswith(("npx", "cargo")):
        return f"{bug.runner} {bug.test.split(' > ')[0]}"
    return f"{bug.runner} {bug.test} -x"


def _finish(wording: Wording, builder: TraceBuilder, bug: Bug, terminal: Shell) -> None:
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
