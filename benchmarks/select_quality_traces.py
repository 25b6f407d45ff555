r"""Choose the traces of the quality benchmark: the same ones each time it is run.

    python benchmarks/select_quality_traces.py --traces ../shared/traces/*.jsonl \
        --gold ../shared/gold/gold_dev.jsonl

Three lists of ids are written beside this file, for ``memdecay bench quality --select``:
``quality_traces.json`` (unlabelled files), ``quality_gold.json`` (labelled, for comparing where
regions come from) and ``quality_fit.json`` (labelled, for fitting parameters; no task of the other
two). A trace qualifies with 4,000 to 8,192 tokens, for a fit with 3,000, and at least 150 of the
assistant. Of each source at most a few are taken, each of another task, in the order of a hash of
their ids.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from memdecay.classifier.embedded import embedded_model_folder
from memdecay.classifier.features import role_code
from memdecay.classifier.rendering import render
from memdecay.classifier.storage import write_text_atomically
from memdecay.classifier.tokenization import tokenize
from memdecay.data.jsonl import read_traces
from memdecay.data.trace import Trace

MIN_TOKENS, MIN_FIT_TOKENS, MAX_TOKENS = 4000, 3000, 8192
MIN_ASSISTANT_TOKENS = 150
_CHARACTERS = (8_000, 60_000)
_ISSUE = re.compile(r"[\w.-]+?__[\w.-]+?-\d+")
_TRIAL = re.compile(r":trial\d+$")


def task_of(trace: Trace) -> str:
    """Return what tells a trace's task from others: several runs of one task share it."""
    issue = _ISSUE.search(trace.id.rsplit("/", 1)[-1])
    if issue:
        return issue.group()
    if trace.task_id != trace.id:
        return f"{trace.source}:{trace.task_id}"
    opening = next((m.content for m in trace.messages if m.role == "user"), "")
    return _TRIAL.sub("", trace.id) if _TRIAL.search(trace.id) else f"{trace.source}:{opening}"


def qualifying(paths: Iterable[Path], tokenizer: Any, min_tokens: int) -> Iterator[Trace]:
    """Yield the traces of the right length."""
    for path in paths:
        for trace in read_traces(path):
            if not _CHARACTERS[0] <= trace.num_characters <= _CHARACTERS[1]:
                continue
            messages = [message.to_openai() for message in trace.messages]
            tokens = tokenize(render(messages, tokenizer), tokenizer)
            num_written = int((tokens.role == role_code("assistant")).sum())
            is_long_enough = min_tokens <= tokens.num_tokens <= MAX_TOKENS
            if is_long_enough and num_written >= MIN_ASSISTANT_TOKENS:
                yield trace


def choose(traces: list[Trace], per_source: int, taken: set[str]) -> list[str]:
    """Return ids, at most ``per_source`` of each source, of tasks that are not taken yet."""
    counts: Counter[str] = Counter()
    chosen = []
    for trace in sorted(traces, key=lambda t: hashlib.sha256(t.id.encode()).digest()):
        task = task_of(trace)
        if counts[trace.source] < per_source and task not in taken:
            counts[trace.source] += 1
            taken.add(task)
            chosen.append(trace.id)
    return sorted(chosen)


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--traces", type=Path, nargs="+", required=True)
    parser.add_argument("--gold", type=Path, nargs="+", required=True)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(str(embedded_model_folder()))
    plain = list(qualifying(sorted(options.traces), tokenizer, MIN_TOKENS))
    gold = list(qualifying(sorted(options.gold), tokenizer, MIN_TOKENS))
    fit = list(qualifying(sorted(options.gold), tokenizer, MIN_FIT_TOKENS))
    taken: set[str] = set()
    for name, traces, per_source in (("traces", plain, 4), ("gold", gold, 2), ("fit", fit, 3)):
        ids = choose(traces, per_source, taken)
        path = Path(__file__).parent / f"quality_{name}.json"
        write_text_atomically(path, json.dumps({"traces": ids}, indent=1) + "\n")
        print(f"{path.name}: {len(ids)} traces")


if __name__ == "__main__":
    main()
