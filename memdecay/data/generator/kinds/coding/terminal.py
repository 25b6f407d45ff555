"""The terminal of a coding run: commands and outputs in the style of one scaffold."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    context,
    finding,
    surround,
)
from memdecay.data.generator.dialects import Dialect, Tool
from memdecay.data.generator.wording import Wording

TOOLS = (
    Tool("bash", "Run a command in a persistent shell.", {"command": "the command line"}),
    Tool("submit", "End the session and hand the changes in.", {}),
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
        is_text = self.dialect is None or not self.dialect.is_structured
        before = surround(thoughts, self._marker, "\n" if is_text else "") if thoughts else ()
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
