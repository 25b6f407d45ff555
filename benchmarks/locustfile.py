"""Agents as locust users: each holds one growing conversation with a server of OpenAI's API.

    pip install locust
    memdecay serve --model smollm2 --budget 2048 --port 8000
    locust -f benchmarks/locustfile.py --headless -u 8 -r 1 -t 2m --host http://127.0.0.1:8000

Each user says what an agent run of the packaged ones says, with a long tool result at its fifth
round, and goes on with another conversation when it has ended. Times to the first text are shown
beside those of the whole answers, under the name "first text".

Variables: MEMDECAY_MODEL (the tokenizer, smollm2 if not set), MEMDECAY_API_KEY, BENCH_TRACES (a
JSONL file), BENCH_ROUNDS (100), BENCH_DUMP_TOKENS (2048).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from locust import HttpUser, between, events, task

from memdecay.classifier.llm import load_llm_shape, load_tokenizer
from memdecay.data.generator import load_synthetic_traces
from memdecay.data.jsonl import read_traces
from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.workload import AgentScript, make_scripts

MAX_TOKENS = 16
NUM_SCRIPTS = 16
MODEL = os.environ.get("MEMDECAY_MODEL", "smollm2")
KEY = os.environ.get("MEMDECAY_API_KEY")
_numbers = count(1)


class Agent(HttpUser):
    """An agent that sends round after round."""

    wait_time = between(0, 0.5)

    def on_start(self) -> None:
        """Ask the server for its model, and begin a conversation."""
        if KEY:
            self.client.headers["Authorization"] = f"Bearer {KEY}"
        self.model = self.client.get("/v1/models").json()["data"][0]["id"]
        self._begin()

    @task
    def next_round(self) -> None:
        """Send the next message and take the answer in."""
        message = next(self.rounds, None)
        if message is None:
            self._begin()
            return
        self.said.append(message)
        text = self._answer()
        self.said.append({"role": "assistant", "content": text})

    def _begin(self) -> None:
        number = next(_numbers)
        script = _scripts()[number % NUM_SCRIPTS]
        self.said: list[Mapping[str, Any]] = list(script.opening)
        first, *others = script.rounds
        # The same run may be told more than once, but never as the same conversation.
        opening = {**first, "content": f"Run {number}. {first['content']}"}
        self.rounds: Iterator[Mapping[str, Any]] = iter([opening, *others])

    def _answer(self) -> str:
        body = {
            "model": self.model,
            "messages": self.said,
            "max_tokens": MAX_TOKENS,
            "temperature": 0,
            "stream": True,
        }
        pieces: list[str] = []
        began = time.perf_counter()
        with self.client.post(
            "/v1/chat/completions", json=body, stream=True, catch_response=True, name="answer"
        ) as response:
            if response.status_code != 200:
                response.failure(f"status {response.status_code}: {response.text[:200]}")
                return ""
            for line in response.iter_lines():
                if piece := _piece(line):
                    if not pieces:
                        self._note_first_text(time.perf_counter() - began)
                    pieces.append(piece)
            # Else locust would take the time to the stream's beginning.
            response.request_meta["response_time"] = 1000 * (time.perf_counter() - began)
            response.success()
        return "".join(pieces)

    def _note_first_text(self, seconds: float) -> None:
        self.environment.events.request.fire(
            request_type="POST",
            name="first text",
            response_time=1000 * seconds,
            response_length=0,
            exception=None,
            context={},
        )


@events.init.add_listener
def _prepare(**_: Any) -> None:
    """Draw the conversations before the clock runs."""
    _scripts()


@cache
def _scripts() -> tuple[AgentScript, ...]:
    path = os.environ.get("BENCH_TRACES")
    traces = list(read_traces(Path(path))) if path else load_synthetic_traces()
    config = LoadConfig(
        num_agents=NUM_SCRIPTS,
        num_rounds=int(os.environ.get("BENCH_ROUNDS", "100")),
        dump_tokens=int(os.environ.get("BENCH_DUMP_TOKENS", "2048")),
        max_tokens=MAX_TOKENS,
    )
    shape, _ = load_llm_shape(MODEL)
    conversations = [[message.to_openai() for message in trace.messages] for trace in traces]
    return make_scripts(
        conversations, config, load_tokenizer(MODEL), int(shape.max_position_embeddings)
    )


def _piece(line: bytes) -> str:
    data = line.removeprefix(b"data:").strip()
    if not line.startswith(b"data:") or data == b"[DONE]":
        return ""
    choices = json.loads(data).get("choices") or [{}]
    return (choices[0].get("delta") or {}).get("content") or ""
