"""The bench of an analyst: calls in one language and style, and their outputs."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

import json

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
from memdecay.data.generator.kinds.analysis.question import Question
from memdecay.data.generator.records import line_pieces, table_lines
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.vocabulary.tables import DataSet, sample_rows
from memdecay.data.generator.wording import Wording

TOOL_NAMES = {"sql": "run_sql", "python": "run_python", "api": "http_get"}


class Bench:
    """The analyst's bench: writes calls in one language and style, and their outputs."""

    def __init__(
        self, wording: Wording, builder: TraceBuilder, data: DataSet, language: str, style: str
    ) -> None:
        self.wording, self.builder, self.data, self.language = wording, builder, data, language
        self.dialect = None if style == "fence" else Dialect(wording, style)
        self.table_style = (
            wording.pick(["pipe", "psql", "aligned", "tuple", "csv"])
            if language == "sql"
            else "aligned"
        )
        self.talks = wording.chance(0.8)
        self.frame = wording.pick(
            [
                ("Observation:\n", ""),
                ("<output>\n", "\n</output>"),
                ("Out:\n", ""),
                ("", "\n(exit status 0)"),
            ]
        )

    def brief(self, question: Question) -> None:
        """Write rules, schema and question."""
        wording, data = self.wording, self.data
        medium = {
            "sql": "a database",
            "python": "a Python session with pandas",
            "api": "a web API",
        }[self.language]
        rules = wording.some(
            [
                "Change no data.",
                "Round to whole numbers.",
                "Check the columns before you compute.",
                "One {query|call} at a time.",
                "Answer with the {value|result} and {how you got it|its source}.",
                "Do not guess; {measure|query}.",
                "Dates are in UTC.",
            ],
            2,
            5,
        )
        text = wording(
            "{You are a data analyst with|You answer questions with the help of} {medium}.\n",
            medium=medium,
        ) + "\n".join("- " + wording(rule) for rule in rules)
        if wording.chance(0.6):
            text += "\n\n" + guidelines(wording, 1, 3)
        tool = Tool(
            TOOL_NAMES[self.language],
            f"Use {medium}; returns what it prints.",
            {"code" if self.language != "api" else "url": "what to run or fetch"},
        )
        if self.dialect is None:
            text += f"\nPut code between ```{self.language} and ```. It is run and its output comes back."
        elif not self.dialect.is_structured or wording.chance(0.5):
            text += "\n" + describe_tools(wording, [tool])
        source = {
            "sql": f"Table: {data.table}",
            "python": f"File: /data/{data.table}.csv",
            "api": f"Base URL: https://data.example/v2/{data.table}",
        }[self.language]
        ask = f"{source}\n{wording.pick(['Question: ', 'Task: ', ''])}{question.text}"
        if wording.chance(0.7):
            self.builder.add("system", instruction(text))
            self.builder.add("user", instruction(ask))
        else:
            self.builder.add("user", instruction(f"{text}\n\n{ask}"))

    def look_at_columns(self) -> None:
        """Ask for the columns."""
        data = self.data
        self._call(
            self.wording(
                "{I first need the columns|Let me see how the data is laid out}{ of {table}|}.",
                table=data.table,
            ),
            {
                "sql": f"DESCRIBE {data.table};",
                "python": f"import pandas as pd\ndf = pd.read_csv('/data/{data.table}.csv')\ndf.info()",
                "api": f"https://data.example/v2/{data.table}/schema",
            }[self.language],
        )
        kinds = ["int", "date", "text", "int", *("text" for _ in data.bulk)]
        rows = [
            f"{name:<14} {kind:<6} {self.wording.pick(['NOT NULL', 'NULL'])}"
            for name, kind in zip(data.columns, kinds, strict=True)
        ]
        others = [
            f"{name:<14} text   NULL"
            for name in self.wording.some(
                [
                    "created_by",
                    "legacy_id",
                    "tenant",
                    "region_code",
                    "updated_at",
                    "row_hash",
                    "etl_run",
                    "comment_2",
                ],
                2,
                8,
            )
        ]
        wanted = {
            i + 1
            for i, row in enumerate([*rows, *others])
            if row.split()[0] in (data.group, data.measure)
        }
        self._output(
            *line_pieces(
                [f"{'column':<14} type   constraint", *rows, *others],
                wanted,
                has_final_newline=False,
            )
        )

    def look_at_rows(self) -> None:
        """Print the first rows to see how the values are written."""
        wording, data = self.wording, self.data
        count = wording.pick([3, 5, 8, 12, 30])
        self._call(
            wording("{A few rows will show how the values are written|Next I look at some rows}."),
            {
                "sql": f"SELECT * FROM {data.table} LIMIT {count};",
                "python": f"print(df.head({count}).to_string())",
                "api": f"https://data.example/v2/{data.table}?page_size={count}",
            }[self.language],
        )
        rows = sample_rows(wording, data, count)
        if self.language == "api":
            lines = [json.dumps(dict(zip(data.columns, row, strict=True))) for row in rows]
            self._output(
                finding('{"status": 200, "items": [\n' + lines[0] + ",\n"),
                context(
                    ",\n".join(lines[1:])
                    + f'\n], "next": "/v2/{data.table}?page=2", "trace": "{wording.code("~~~~~~~~~~")}"}}'
                ),
            )
            return
        lines = table_lines(data.columns, rows, self.table_style)
        wanted = {0} if self.table_style in ("tuple", "csv", "aligned") else {0, 1, 2}
        self._output(*line_pieces(lines, wanted, has_final_newline=False))

    def stumble(self) -> None:
        """Make a mistake and read the error."""
        wording, data = self.wording, self.data
        wrong = wording.pick(
            [data.measure.split("_")[0] + "s_total", data.measure.upper(), data.group + "_name"]
        )
        self._call(
            wording("{Now the totals.|I group by {group} and add up.}", group=data.group),
            self._query(wrong),
        )
        if self.language == "python":
            frames = [
                "Traceback (most recent call last):",
                '  File "<cell>", line 1, in <module>',
                '  File "/usr/lib/python3/site-packages/pandas/core/frame.py", line 4102, in __getitem__',
                "    indexer = self.columns.get_loc(key)",
                '  File "/usr/lib/python3/site-packages/pandas/core/indexes/base.py", line 3812, in get_loc',
                "    raise KeyError(key) from err",
            ]
            self._output(context("\n".join(frames) + "\n"), finding(f"KeyError: '{wrong}'"))
        elif self.language == "sql":
            self._output(
                finding(
                    wording(
                        '{ERROR:  column "{wrong}" does not exist|Error: no such column: {wrong}}',
                        wrong=wrong,
                    )
                )
            )
        else:
            self._output(finding(f'{{"status": 400, "error": "unknown field {wrong}"}}'))
        self._repair = wording(
            "{The column is called {measure}, not {wrong}|I misspelt the column, it is {measure}}. {Again with the right name.|Corrected:}",
            measure=data.measure,
            wrong=wrong,
        )

    _repair = ""

    def aggregate(self, question: Question) -> None:
        """Compute the totals, in an order that leaves the answer somewhere in the middle."""
        wording, data = self.wording, self.data
        thought = self._repair or wording(
            "{A sum over each {group} answers it|Grouping by {group} gives what is asked for}.",
            group=data.group,
        )
        self._call(thought, self._query(data.measure))
        names = wording.shuffled(sorted(data.totals))
        if self.language == "api":
            lines = [
                json.dumps(
                    {
                        data.group: name,
                        "total": data.totals[name],
                        "rows": wording.number(20, 900),
                        "etag": wording.code("~~~~~~~~"),
                    }
                )
                for name in names
            ]
            offset = 0
        else:
            lines = table_lines(
                [data.group, f"sum_{data.measure}", "rows"],
                [(name, data.totals[name], wording.number(20, 900)) for name in names],
                self.table_style if self.language == "sql" else "aligned",
            )
            offset = len(lines) - len(names)
        wanted = {offset + names.index(name) for name in question.groups}
        self._output(*line_pieces(lines, wanted, has_final_newline=False))

    def answer(self, question: Question) -> None:
        """Give the answer."""
        wording = self.wording
        retold = context(
            wording(
                "{The result has one line for each {group}, and all of them are plausible|I have the totals of all groups now}. ",
                group=self.data.group,
            )
        )
        final = decision(
            wording("{The answer is|Answer:|Final answer:} {answer}.", answer=question.answer)
        )
        self.builder.add("assistant", *((retold, final) if wording.chance(0.4) else (final,)))

    def _query(self, column: str) -> str:
        data = self.data
        return {
            "sql": self.wording(
                "{SELECT {group}, SUM({column}), COUNT(*) FROM {table} GROUP BY {group};|SELECT {group}, SUM({column}) AS s, COUNT(*) AS n\nFROM {table}\nGROUP BY 1;}",
                group=data.group,
                column=column,
                table=data.table,
            ),
            "python": self.wording(
                "{print(df.groupby('{group}')['{column}'].agg(['sum', 'count']))|totals = df.groupby('{group}')['{column}'].sum()\nprint(totals.to_string())}",
                group=data.group,
                column=column,
            ),
            "api": f"https://data.example/v2/{data.table}/totals?by={data.group}&sum={column}",
        }[self.language]

    def _call(self, thought: str, code: str) -> None:
        lead = (decision(thought),) if self.talks else ()
        if self.dialect is None:
            self.builder.add(
                "assistant",
                *(surround(lead, suffix="\n\n") if lead else ()),
                finding(f"```{self.language}\n{code}\n```"),
            )
            return
        key = "url" if self.language == "api" else "code"
        self.dialect.call(self.builder, TOOL_NAMES[self.language], {key: code}, *lead)

    def _output(self, *pieces: Piece) -> None:
        if self.dialect is None:
            self.builder.add("user", *surround(pieces, *self.frame))
        else:
            self.dialect.result(self.builder, *pieces)
