"""Bulk that a shell prints: listings, test logs, lines of unrelated code."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.wording import Wording

_ENTRIES = (
    ".editorconfig", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md",
    "LICENSE", "Makefile", "README.md", "assets", "benchmarks", "docker-compose.yml", "docs",
    "examples", "noxfile.py", "package-lock.json", "requirements-dev.txt", "scripts", "setup.cfg",
    "tools", "tox.ini", "vendor", ".github", "SECURITY.md", "poetry.lock", "conftest.py",
)  # fmt: skip
_SUBJECTS = (
    "empty_input", "unicode_names", "negative_values", "large_batches", "missing_file", "round_trip",
    "default_options", "nested_records", "time_zones", "duplicate_keys", "slow_server", "old_format",
    "parallel_writers", "symlinks", "trailing_newline", "bad_checksum", "read_only_disk", "retries",
)  # fmt: skip
_NOUNS = ("record", "batch", "entry", "chunk", "token", "frame", "route", "layer", "field", "shard")
_VERBS = ("load", "merge", "split", "flush", "encode", "trim", "index", "visit", "pack", "verify")


def listing(wording: Wording, extra: str) -> list[str]:
    """Return lines of ``ls -la`` with one more entry."""
    names = sorted([*wording.some(_ENTRIES, 9, 20), extra])
    owner = wording.pick(["root root", "dev  staff", "app  app"])
    month = wording.pick(["Mar", "Jun", "Sep", "Dec"])
    return [
        f"{'-rw-r--r--' if '.' in name[1:] or name.isupper() else 'drwxr-xr-x'} 1 {owner} "
        f"{wording.number(40, 90000):>6} {month} {wording.number(1, 28):>2} 09:{wording.code('1#')} {name}"
        for name in names
    ]


def passed_tests(wording: Wording, runner: str, count: int) -> list[str]:
    """Return lines of a test log in which everything passes."""
    subjects = [f"{wording.pick(_VERBS)}_{wording.pick(_SUBJECTS)}" for _ in range(count)]
    if runner.startswith("go"):
        return [
            f"--- PASS: Test{s.title().replace('_', '')} (0.{wording.code('##')}s)"
            for s in subjects
        ]
    if runner.startswith("cargo"):
        return [f"test {wording.pick(_NOUNS)}::tests::{s} ... ok" for s in subjects]
    if runner.startswith("npx"):
        return [
            f" ✓ lib/{wording.pick(_NOUNS)}.test.ts > {s.replace('_', ' ')} {wording.number(1, 40)}ms"
            for s in subjects
        ]
    return [
        f"tests/test_{wording.pick(_NOUNS)}.py::test_{s} PASSED [{i * 100 // count:>3}%]"
        for i, s in enumerate(subjects, 1)
    ]


def unrelated_code(wording: Wording, path: str, count: int) -> list[str]:
    """Return ``count`` small functions in the language of the file, as lines."""
    lines: list[str] = []
    for _ in range(count):
        verb, noun, other = wording.pick(_VERBS), wording.pick(_NOUNS), wording.pick(_NOUNS)
        limit = wording.number(2, 512)
        lines.append("")
        if path.endswith(".py"):
            lines += [f"def {verb}_{noun}({noun}s, {other}=None, limit={limit}):"]
            lines += [f"    result = []", f"    for {noun} in {noun}s[:limit]:"]  # noqa: F541
            lines += [
                wording.pick(
                    [
                        f"        if {noun}.is_{verb}ed:",
                        f"        if {other} is not None:",
                        f"        if len({noun}) > {wording.number(1, 9)}:",
                    ]
                )
            ]
            lines += [f"            result.append({verb}({noun}, {other}))", "    return result"]
        elif path.endswith(".go"):
            lines += [
                f"func {verb}{noun.title()}(in []{noun.title()}, limit int) (int, error) {{",
                f"\tif len(in) > {limit} {{",
                f'\t\treturn 0, fmt.Errorf("{verb}: %d {noun}s over limit", len(in))',
                "\t}",
                f"\treturn len(in) - {wording.number(0, 3)}, nil",
                "}",
            ]
        elif path.endswith(".rs"):
            lines += [
                f"fn {verb}_{noun}(items: &[{noun.title()}]) -> Vec<{other.title()}> {{",
                f"    items.iter().take({limit}).filter(|i| i.{verb}ed()).map({other.title()}::from).collect()",
                "}",
            ]
        else:
            lines += [
                f"export function {verb}{noun.title()}(items: {noun.title()}[], limit = {limit}): {other.title()}[] {{",
                f"  return items.slice(0, limit).map((item) => {verb}One(item, '{other}'));",
                "}",
            ]
    return lines
