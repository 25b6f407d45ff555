"""`memdecay tag`: a trace's text, coloured by region."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from memdecay.classifier.artifact import load_artifact
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import load_llm
from memdecay.classifier.pretrained import classifier_folder
from memdecay.classifier.regions import REGION_LABELS
from memdecay.cli.config_file import ConfigOption
from memdecay.cli.console import output_console
from memdecay.cli.options import (
    DEFAULT_CLASSIFIER,
    ClassifierOption,
    DeviceOption,
    DtypeOption,
    IdOption,
    IndexOption,
    ModelOption,
)
from memdecay.cli.report import REGION_COLOURS
from memdecay.cli.traces import pick_trace
from memdecay.data.trace import Trace
from memdecay.training.tagging import TaggedTrace, tag_trace

_CONTROL_SIGNS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"} | {
    0x7F: "\u2421"
}
EPILOG = """
[bold]Examples[/bold]

memdecay tag --trace traces.jsonl

memdecay tag --classifier runs/mine --trace traces.jsonl --index 3 --json > tags.json
"""


def tag(
    trace: Annotated[Path, typer.Option("--trace", help="File of traces (JSONL).")],
    classifier: ClassifierOption = DEFAULT_CLASSIFIER,
    index: IndexOption = 0,
    trace_id: IdOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines instead of colours.")
    ] = False,
    model: ModelOption = "smollm2",
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    config: ConfigOption = None,  # noqa: ARG001  Its callback has set the defaults.
) -> None:
    """Show which region the classifier gives each stretch of a trace."""
    artifact = load_artifact(classifier_folder(classifier, model))
    chosen = pick_trace(trace, trace_id, index)
    llm = load_llm(model, dtype, device)
    artifact.check_llm(llm_fingerprint(llm.model), llm.hidden_size, llm.num_layers, model)
    tagged = tag_trace(chosen, llm, artifact)
    if as_json:
        typer.echo(json.dumps(_as_data(chosen, tagged), ensure_ascii=False))
    else:
        _print_coloured(chosen, tagged)


def _as_data(trace: Trace, tagged: TaggedTrace) -> dict[str, Any]:
    return {
        "id": trace.id,
        "text": tagged.rendered.text,
        "spans": [
            {
                "message": span.message,
                "start": span.start,
                "end": span.end,
                "region": span.region.label,
                "confidence": round(span.confidence, 4),
                "importance": round(span.importance, 4),
                "is_template": span.is_template,
            }
            for span in tagged.spans
        ],
    }


def _visible(text: str) -> str:
    """Show control characters as signs: a tool's output must not steer the terminal."""
    return text.translate(_CONTROL_SIGNS)


def _print_coloured(trace: Trace, tagged: TaggedTrace) -> None:
    console = output_console()
    legend = Text("Regions: ")
    for label in REGION_LABELS:
        legend.append(label, style=REGION_COLOURS[label]).append("  ")
    console.print(legend)
    text = Text()
    position = 0
    for span in tagged.spans:
        # Text between tokens (white space that the tokenizer swallows) keeps its place.
        text.append(_visible(tagged.rendered.text[position : span.start]))
        style = "dim" if span.is_template else REGION_COLOURS[span.region.label]
        text.append(_visible(tagged.rendered.text[span.start : span.end]), style=style)
        position = span.end
    text.append(_visible(tagged.rendered.text[position:]))
    console.print(text, soft_wrap=True)
    console.print(Text(f"{trace.id}: {len(trace.messages)} messages", style="dim"))
