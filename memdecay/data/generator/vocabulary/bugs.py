"""Invented repositories with one bug each: the file, the wrong lines, the fix and the symptom."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug and everything that a run about it needs.

    Attributes:
        repository: Name of the repository.
        path: File with the bug.
        issue: Paragraphs of the report (templates).
        before: Lines of the file that matter, as they are.
        after: The same lines, mended.
        around: Lines of the file above and below that do not matter.
        symbol: What one greps for.
        test: Path and name of the failing test.
        error: The error line.
        frames: Lines of a traceback above the error.
        diagnosis: Why it fails (templates), from guess to certainty.
        runner: Command that runs the tests.
        closing: Lines that close what the wrong lines leave open.
    """

    repository: str
    path: str
    issue: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    around: tuple[str, ...]
    symbol: str
    test: str
    error: str
    frames: tuple[str, ...]
    diagnosis: tuple[str, str]
    runner: str = "python -m pytest"
    closing: tuple[str, ...] = ()

    @property
    def definition(self) -> str:
        """The line of the file that a search for the symbol finds."""
        return next(line for line in self.before if self.symbol in line)


BUGS = (
    Bug(
        repository="tidewater",
        path="src/tidewater/windows.py",
        issue=(
            "rolling_mean drops the last window\n\nWhen the {series|input} length is a multiple of the window size, `rolling_mean` returns one value too few.",
            "Expected: {`[1.5, 2.5, 3.5]` for `[1, 2, 3, 4]` and size 2|as many values as there are full windows}.\nActual: the last one is missing. {Happens on 2.3 and on main.|It worked in 2.1.}",
        ),
        before=("def rolling_mean(values: Sequence[float], size: int = DEFAULT_SIZE) -> Iterator[float]:", "    count = len(values) - size", "    for start in range(count):", "        yield sum(values[start : start + size]) / size"),
        after=("def rolling_mean(values: Sequence[float], size: int = DEFAULT_SIZE) -> Iterator[float]:", "    count = len(values) - size + 1", "    for start in range(count):", "        yield sum(values[start : start + size]) / size"),
        around=("from __future__ import annotations", "", "from collections.abc import Iterator, Sequence", "", "DEFAULT_SIZE = 7", "", "", "def clip(values: Sequence[float], low: float, high: float) -> list[float]:", "    return [min(max(value, low), high) for value in values]", "", "", "def lagged(values: Sequence[float], lag: int) -> list[float | None]:", "    padding = [None] * lag", "    return padding + list(values[:-lag or None])", "", "", "def normalise(values: Sequence[float]) -> list[float]:", "    peak = max(values, default=1.0)", "    return [value / peak for value in values]"),
        symbol="rolling_mean",
        test="tests/test_windows.py::test_last_window_is_kept",
        error="AssertionError: assert [1.5, 2.5] == [1.5, 2.5, 3.5]",
        frames=("tests/test_windows.py:31: in test_last_window_is_kept", "    assert list(rolling_mean([1, 2, 3, 4], 2)) == [1.5, 2.5, 3.5]", "E   Right contains one more item: 3.5", "E   Full diff:", "E     [", "E         1.5,", "E         2.5,", "E   -     3.5,", "E     ]"),
        diagnosis=("{Probably the number of windows is off by one|I suspect an off-by-one in the loop bound}", "a sequence of n values has n - size + 1 full windows, but the code counts n - size"),
    ),
    Bug(
        repository="pigeonpost",
        path="pigeonpost/headers.py",
        issue=(
            "Header lookup is case sensitive\n\n`message.headers['Content-Type']` works, `message.headers['content-type']` raises `KeyError`.",
            "HTTP header names are case insensitive, so {both should work|the lookup must not care}. We hit this with a proxy that {lower-cases everything|rewrites header names}.",
        ),
        before=("    def __getitem__(self, name: str) -> str:", "        return self._items[name]"),
        after=("    def __getitem__(self, name: str) -> str:", "        return self._items[name.lower()]"),
        around=("import re", "import typing as t", "", "_TOKEN = re.compile(r'^[!#$%&*+.^_`|~0-9A-Za-z-]+$')", "", "", "class Headers:", "    def __init__(self, items: t.Mapping[str, str]) -> None:", "        self._items = {}", "        for name, value in items.items():", "            self.add(name, value)", "", "    def add(self, name: str, value: str) -> None:", "        if not _TOKEN.match(name):", "            raise ValueError(f'bad header name {name!r}')", "        self._items[name.lower()] = value.strip()", "", "    def __len__(self) -> int:", "        return len(self._items)", "", "    def __repr__(self) -> str:", "        return f'Headers({self._items!r})'"),
        symbol="__getitem__",
        test="tests/test_headers.py::test_lookup_ignores_case",
        error="KeyError: 'Content-Type'",
        frames=("Traceback (most recent call last):", '  File "tests/test_headers.py", line 18, in test_lookup_ignores_case', "    assert headers['Content-Type'] == 'text/plain'", "           ~~~~~~~^^^^^^^^^^^^^^^^", '  File "pigeonpost/headers.py", line 42, in __getitem__', "    return self._items[name]", "           ~~~~~~~~~~~^^^^^^"),
        diagnosis=("{The names must be normalised on one side only|It looks as if one of the two sides lower-cases the name}", "`add` stores lower-cased names while `__getitem__` looks up the name as given"),
    ),
    Bug(
        repository="larder",
        path="lib/store/ttl-cache.ts",
        issue=(
            "TtlCache returns entries after they expired\n\nAn entry with `ttl: 0` never expires, and entries are still served {a while|up to a minute} after their time.",
            "Steps: `cache.set('a', 1, { ttl: 0 }); cache.get('a')` gives `1`, I expect `undefined`. {Node 20, larder 4.1.0.|Seen on Node 22.}",
        ),
        before=("  get(key: string): V | undefined {", "    const entry = this.entries.get(key);", "    if (entry && entry.ttl && entry.expires < Date.now()) {", "      this.entries.delete(key);", "      return undefined;", "    }"),
        after=("  get(key: string): V | undefined {", "    const entry = this.entries.get(key);", "    if (entry && entry.expires <= Date.now()) {", "      this.entries.delete(key);", "      return undefined;", "    }"),
        around=("import { EventEmitter } from 'node:events';", "", "interface Entry<V> {", "  value: V;", "  ttl: number;", "  expires: number;", "}", "", "export class TtlCache<V> extends EventEmitter {", "  private readonly entries = new Map<string, Entry<V>>();", "", "  constructor(private readonly defaultTtl = 60_000) {", "    super();", "  }", "", "  set(key: string, value: V, options: { ttl?: number } = {}): void {", "    const ttl = options.ttl ?? this.defaultTtl;", "    this.entries.set(key, { value, ttl, expires: Date.now() + ttl });", "    this.emit('set', key);", "  }", "", "  get size(): number {", "    return this.entries.size;", "  }"),
        symbol="expires",
        test="lib/store/ttl-cache.test.ts > drops an entry whose ttl is zero",
        error="AssertionError: expected 1 to be undefined",
        frames=(" FAIL  lib/store/ttl-cache.test.ts > drops an entry whose ttl is zero", " > lib/store/ttl-cache.test.ts:24:31", "     22|     cache.set('a', 1, { ttl: 0 });", "     23|     vi.advanceTimersByTime(1);", "     24|     expect(cache.get('a')).toBe(undefined);", "       |                            ^", "     25|   });"),
        diagnosis=("{A zero may be treated as missing|The check for expiry probably skips a ttl of zero}", "`entry.ttl &&` is false for zero, so the branch that deletes is never entered"),
        runner="npx vitest run",
        closing=("    return entry?.value;", "  }", "}"),
    ),
    Bug(
        repository="ferryman",
        path="internal/queue/retry.go",
        issue=(
            "retry: backoff overflows after many attempts\n\nAfter {roughly 40|a few dozen} failed attempts the delay becomes negative and the worker spins at full speed.",
            "The documentation says that the delay is capped at `MaxDelay`. {It is not.|That does not seem to happen.}",
        ),
        before=("func (p Policy) Delay(attempt int) time.Duration {", "\td := p.Base << attempt", "\treturn d", "}"),
        after=("func (p Policy) Delay(attempt int) time.Duration {", "\td := p.Base << min(attempt, 30)", "\treturn min(d, p.MaxDelay)", "}"),
        around=("package queue", "", "import (", '\t"context"', '\t"errors"', '\t"time"', ")", "", "// Policy says how often and how fast a job is tried again.", "type Policy struct {", "\tBase     time.Duration", "\tMaxDelay time.Duration", "\tLimit    int", "}", "", "var ErrExhausted = errors.New(\"queue: attempts exhausted\")", "", "func (p Policy) Wait(ctx context.Context, attempt int) error {", "\ttimer := time.NewTimer(p.Delay(attempt))", "\tdefer timer.Stop()", "\tselect {", "\tcase <-ctx.Done():", "\t\treturn ctx.Err()", "\tcase <-timer.C:", "\t\treturn nil", "\t}", "}"),
        symbol="Delay(",
        test="TestDelayIsCapped",
        error="    retry_test.go:57: Delay(63) = -2h33m0s, want 5m0s",
        frames=("=== RUN   TestDelayIsCapped", "=== RUN   TestDelayIsCapped/attempt_1", "=== RUN   TestDelayIsCapped/attempt_12", "=== RUN   TestDelayIsCapped/attempt_63", "--- FAIL: TestDelayIsCapped (0.00s)", "    --- PASS: TestDelayIsCapped/attempt_1 (0.00s)", "    --- PASS: TestDelayIsCapped/attempt_12 (0.00s)"),
        diagnosis=("{The shift most likely overflows|My guess is that the shift has no upper bound}", "`Base << attempt` wraps around for a large attempt and MaxDelay is never consulted"),
        runner="go test",
    ),
    Bug(
        repository="quillmark",
        path="quillmark/slugs.py",
        issue=(
            "slugify merges different headings\n\nTwo headings {`C` and `C++`|that differ in punctuation only} get the same anchor, so links go to the first one.",
            "I would expect a counter at the second: `c`, `c-1`. {The docs promise unique anchors.|Other generators do that.}",
        ),
        before=("def anchor(heading: str, used: set[str]) -> str:", "    slug = _strip(heading).lower().replace(' ', '-')", "    used.add(slug)", "    return slug"),
        after=("def anchor(heading: str, used: set[str]) -> str:", "    stem = slug = _strip(heading).lower().replace(' ', '-')", "    number = 0", "    while slug in used:", "        number += 1", "        slug = f'{stem}-{number}'", "    used.add(slug)", "    return slug"),
        around=("import unicodedata", "", "PUNCTUATION = frozenset('!?.,:;+*/()[]')", "", "", "def _strip(text: str) -> str:", "    decomposed = unicodedata.normalize('NFKD', text)", "    return ''.join(c for c in decomposed if c not in PUNCTUATION).strip()", "", "", "def table_of_contents(headings: list[tuple[int, str]]) -> list[str]:", "    used: set[str] = set()", "    lines = []", "    for level, heading in headings:", "        indent = '  ' * (level - 1)", "        lines.append(f'{indent}- [{heading}](#{anchor(heading, used)})')", "    return lines"),
        symbol="def anchor",
        test="tests/test_slugs.py::test_equal_slugs_get_a_counter",
        error="AssertionError: assert ['c', 'c'] == ['c', 'c-1']",
        frames=("    def test_equal_slugs_get_a_counter():", "        used = set()", ">       assert [anchor('C', used), anchor('C++', used)] == ['c', 'c-1']", "E       At index 1 diff: 'c' != 'c-1'", "tests/test_slugs.py:44:"),
        diagnosis=("{Nothing seems to look at the anchors in use|I believe the set of used anchors is never read}", "`used` is filled but the new slug is not compared with it"),
    ),
    Bug(
        repository="granary",
        path="crates/granary-core/src/interval.rs",
        issue=(
            "Interval::overlaps says yes for touching intervals\n\nOur intervals are half open, yet `[0, 5)` and `[5, 9)` count as overlapping. {Bookings that follow each other are rejected because of this.|That makes the merge step glue neighbours.}",
            "{A failing test is attached as `touching_is_no_overlap`.|I can add a test if you like.}",
        ),
        before=("    pub fn overlaps(&self, other: &Interval) -> bool {", "        self.start <= other.end && other.start <= self.end", "    }"),
        after=("    pub fn overlaps(&self, other: &Interval) -> bool {", "        self.start < other.end && other.start < self.end", "    }"),
        around=("use std::cmp::{max, min};", "", "/// A half-open stretch of time, in seconds.", "#[derive(Clone, Copy, Debug, PartialEq, Eq)]", "pub struct Interval {", "    pub start: i64,", "    pub end: i64,", "}", "", "impl Interval {", "    pub fn new(start: i64, end: i64) -> Option<Self> {", "        (start < end).then_some(Self { start, end })", "    }", "", "    pub fn length(&self) -> i64 {", "        self.end - self.start", "    }", "", "    pub fn hull(&self, other: &Interval) -> Interval {", "        Interval { start: min(self.start, other.start), end: max(self.end, other.end) }", "    }"),
        symbol="fn overlaps",
        test="interval::tests::touching_is_no_overlap",
        error="assertion failed: !Interval { start: 0, end: 5 }.overlaps(&Interval { start: 5, end: 9 })",
        frames=("running 14 tests", "test interval::tests::hull_covers_both ... ok", "test interval::tests::length_is_the_difference ... ok", "test interval::tests::touching_is_no_overlap ... FAILED", "", "failures:", "", "---- interval::tests::touching_is_no_overlap stdout ----", "thread 'interval::tests::touching_is_no_overlap' panicked at crates/granary-core/src/interval.rs:61:9:"),
        closing=("}",),
        diagnosis=("{The comparison may include the end point|Maybe the bounds are compared as if both were closed}", "with half-open intervals both comparisons have to be strict"),
        runner="cargo test",
    ),
    Bug(
        repository="settlebox",
        path="settlebox/config.py",
        issue=(
            "SETTLEBOX_TIMEOUT from the environment is ignored\n\nSetting `SETTLEBOX_TIMEOUT=5` has no effect, the client {still waits 30 seconds|keeps the default}.",
            "{The command line option works.|Passing timeout= in code works.} Only the environment variable {does not|is ignored}.",
        ),
        before=("def load(path: Path, environ=os.environ) -> Config:", "    merged = {**from_file(path), **from_environment(environ)}", "    merged.update(DEFAULTS)", "    return Config(**merged)"),
        after=("def load(path: Path, environ=os.environ) -> Config:", "    merged = {**DEFAULTS, **from_file(path), **from_environment(environ)}", "    return Config(**merged)"),
        around=("import os", "import tomllib", "from dataclasses import dataclass", "from pathlib import Path", "", "DEFAULTS = {'timeout': 30, 'retries': 2, 'region': 'north'}", "", "", "@dataclass(frozen=True)", "class Config:", "    timeout: int", "    retries: int", "    region: str", "", "", "def from_file(path: Path) -> dict:", "    return tomllib.loads(path.read_text()) if path.exists() else {}", "", "", "def from_environment(environ=os.environ) -> dict:", "    prefix = 'SETTLEBOX_'", "    found = {k.removeprefix(prefix).lower(): v for k, v in environ.items() if k.startswith(prefix)}", "    return {k: int(v) if v.isdigit() else v for k, v in found.items()}"),
        symbol="from_environment(environ)",
        test="tests/test_config.py::test_environment_wins_over_defaults",
        error="AssertionError: assert 30 == 5",
        frames=("    def test_environment_wins_over_defaults(tmp_path):", "        environ = {'SETTLEBOX_TIMEOUT': '5'}", "        config = load(tmp_path / 'none.toml', environ)", ">       assert config.timeout == 5", "E        +  where 30 = Config(timeout=30, retries=2, region='north').timeout"),
        diagnosis=("{The order in which the sources are merged is a candidate|Something seems to overwrite the value later}", "`merged.update(DEFAULTS)` runs last, so the defaults win over every other source"),
    ),
)  # fmt: skip
