"""Data analysis with SQL, Python or an API: long outputs of which few lines matter."""

from __future__ import annotations

from memdecay.data.generator.builder import (
    TraceBuilder,
)
from memdecay.data.generator.kinds.analysis.bench import Bench
from memdecay.data.generator.kinds.analysis.question import draw_question
from memdecay.data.generator.vocabulary.tables import draw_data_set
from memdecay.data.generator.wording import Wording

_STYLES = (
    "fence",
    "fence",
    "openai",
    "function_role",
    "openai_without_ids",
    "execute",
    "action_input",
    "json_block",
)


def write_analysis(wording: Wording, builder: TraceBuilder) -> None:
    """Write the way from a question about data to its answer."""
    data = draw_data_set(wording)
    language = wording.pick(["sql", "sql", "python", "python", "api"])
    bench = Bench(wording, builder, data, language, wording.pick(_STYLES))
    question = draw_question(wording, data)
    bench.brief(question)
    bench.look_at_columns()
    if wording.chance(0.7):
        bench.look_at_rows()
    if wording.chance(0.5):
        bench.stumble()
    bench.aggregate(question)
    bench.answer(question)
