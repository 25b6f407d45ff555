"""The steps of a coding run: look around, search, reproduce, mend, test."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    context,
    decision,
    finding,
)
from memdecay.data.generator.kinds.coding.terminal import Shell
from memdecay.data.generator.records import line_pieces
from memdecay.data.generator.vocabulary import shell
from memdecay.data.generator.vocabulary.bugs import Bug
from memdecay.data.generator.wording import Wording


def repair(wording: Wording, terminal: Shell, bug: Bug, num_extra_steps: int) -> None:
    """Write the steps from the first look to the passing tests."""
    if wording.chance(0.4):
        _plan(wording, terminal, bug)
    steps = [_look_around, _read_documents, _check_history]
    for step in wording.some(steps, num_extra_steps, num_extra_steps):
        step(wording, terminal, bug)
    _search(wording, terminal, bug)
    first, second = (_reproduce, _read_file) if wording.chance(0.5) else (_read_file, _reproduce)
    first(wording, terminal, bug)
    second(wording, terminal, bug)
    _mend(wording, terminal, bug)
    _run_tests(wording, terminal, bug)


def _plan(wording: Wording, terminal: Shell, bug: Bug) -> None:
    steps = [
        wording("{locate|find} `{symbol}`", symbol=bug.symbol),
        wording("{run {test}|reproduce the failure}", test=bug.test.split("::")[-1]),
        wording("{change|edit} {path} {and nothing else|}", path=bug.path).rstrip(),
        wording("{run the whole suite|check that the other tests still pass}"),
    ]
    plan = wording("{My plan|This is how I go about it|Steps}:\n") + "\n".join(
        f"{i}) {step}" for i, step in enumerate(steps, 1)
    )
    terminal.run(
        (decision(plan),),
        wording.pick(["pwd", "git status --short", f"test -f {bug.path} && echo present"]),
        finding(wording.pick([terminal.root, "present", "(no output)"])),
    )


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
    rows = [f"{bug.path}:{line}:{bug.definition}", *others]
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
    if wording.chance(0.4):
        _read_range(wording, terminal, bug)
        return
    above = list(bug.around)
    below = shell.unrelated_code(wording, bug.path, wording.number(2, 5))
    lines = [*above, "", *bug.before, *bug.closing, *below]
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


def _read_range(wording: Wording, terminal: Shell, bug: Bug) -> None:
    """Write the look at just the lines in question: they are all what the call was made for."""
    lines = [*bug.before, *bug.closing]
    first = wording.number(20, 90)
    command = wording.pick(["sed -n '{a},{b}p' {path}", "head -n {b} {path} | tail -n +{a}"])
    shown = command.format(a=first, b=first + len(lines) - 1, path=bug.path)
    thought = wording(
        "{I only need|It is enough to see} the lines from {first} on, {where the match is|around `{symbol}`}.",
        first=first,
        symbol=bug.symbol,
    )
    terminal.run((decision(thought),), shown, finding("\n".join(lines)))


def _reproduce(wording: Wording, terminal: Shell, bug: Bug) -> None:
    noise = shell.passed_tests(wording, bug.runner, wording.number(2, 9))
    failed = f"\nFAILED {bug.test}\n1 failed, {len(noise)} passed" if wording.chance(0.5) else ""
    output = [context("\n".join([*noise, *bug.frames]) + "\n"), finding(bug.error + failed)]
    thought = wording(
        "{I want to see the failure with my own eyes|Now reproduce it}{: run the test from the issue|}."
    )
    terminal.run((decision(thought),), _test_command(bug), *output, code=1)


def _mend(wording: Wording, terminal: Shell, bug: Bug) -> None:
    retold = context(_recapitulation(wording, bug))
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


def _recapitulation(wording: Wording, bug: Bug) -> str:
    seen = [
        wording(
            "{The issue says|According to the report}: {title}.", title=bug.issue[0].split("\n")[0]
        ),
        wording(
            "{The test run ended with|The output of the test was} `{error}`.",
            error=bug.error.strip(),
        ),
        wording(
            "The file {path} has {these lines|the code in question}:\n```\n{lines}\n```\n",
            path=bug.path,
            lines="\n".join(bug.before),
        ),
        wording(
            "{Looking at the code again|To recap}: {lines}.",
            lines="; ".join(f"`{line.strip()}`" for line in bug.before[:2]),
        ),
        wording(
            "{The other matches of the search are documentation|The remaining tests passed}{ as far as I can see|}."
        ),
    ]
    return " ".join(wording.some(seen, 1, 4)) + " "


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
