"""The agents against a server without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.driver import Driven, Target, drive
from memdecay.serving.bench.workload import AgentScript
from tests.serving.bench.fake_server import ANSWER, FakeServer, fake_server

SCRIPTS = tuple(
    AgentScript(
        ({"role": "system", "content": "Be brief."},) if agent else (),
        tuple({"role": "user", "content": f"{agent} asks {number}"} for number in range(3)),
    )
    for agent in range(2)
)
LOAD = LoadConfig(num_agents=2, num_rounds=3, max_tokens=7, timeout_s=10.0)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with fake_server(FakeServer()) as running:
        yield running


def run(server: FakeServer, load: LoadConfig = LOAD, *, is_memdecay: bool = False) -> Driven:
    target = Target(server.url, {"model": "fake"}, tells_memory=is_memdecay, can_salt=is_memdecay)
    return asyncio.run(drive(target, SCRIPTS, load))


def test_each_round_holds_the_round_before_and_its_answer(server: FakeServer) -> None:
    driven = run(server)
    longest = max(server.bodies, key=lambda body: len(body["messages"]))
    assert [message["content"] for message in longest["messages"]] == [
        "Be brief.",
        "1 asks 0",
        "".join(ANSWER),
        "1 asks 1",
        "".join(ANSWER),
        "1 asks 2",
    ]
    assert all(body["max_tokens"] == 7 and body["stream"] for body in server.bodies)
    rounds = {(row.agent, row.round) for row in driven.rows}
    assert rounds == {(agent, number) for agent in range(2) for number in (1, 2, 3)}
    assert not any(row.error for row in driven.rows)
    assert all(0 < row.first_token_s <= row.total_s <= row.end_s for row in driven.rows)


def test_what_the_server_tells_of_tokens_is_kept(server: FakeServer) -> None:
    row = max(run(server).rows, key=lambda row: row.prompt_tokens or 0)
    assert (row.prompt_tokens, row.cached_tokens, row.answer_tokens) == (60, 5, 2)


def test_the_rounds_behind_a_failed_one_fail_without_being_sent(server: FakeServer) -> None:
    server.fails_from = 3
    driven = run(server)
    failed = [row for row in driven.rows if row.error]
    assert {(row.agent, row.round) for row in failed} == {(0, 2), (0, 3), (1, 2), (1, 3)}
    assert all("too much to do" in row.error for row in failed)
    assert len(server.bodies) == 4


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [({"error": {"message": "the model broke"}}, "the model broke"), ({"error": "odd"}, "odd")],
)
def test_an_error_inside_a_stream_is_a_failed_round(
    server: FakeServer, chunk: dict[str, object], reason: str
) -> None:
    server.chunks = (chunk,)
    assert {row.error for row in run(server).rows} == {reason}


def test_a_server_that_is_gone_fails_every_round() -> None:
    with fake_server(FakeServer()) as gone:
        pass
    driven = run(gone)
    assert len(driven.rows) == 6
    assert all("Connect" in row.error for row in driven.rows)


def test_an_answer_without_text_still_has_a_time(server: FakeServer) -> None:
    server.chunks = ()
    assert all(
        row.first_token_s == row.total_s or row.first_token_s > 0 for row in run(server).rows
    )


def test_memory_is_looked_at_and_rounds_are_sent_again_without_cache(server: FakeServer) -> None:
    driven = run(server, is_memdecay=True)
    assert (driven.peak_kv_bytes, driven.kv_limit_bytes) == (4096, 8192)
    (probe,) = driven.probes
    assert probe.round == 3
    again = server.bodies[-1]
    assert again["cache_salt"]
    assert again["max_tokens"] == 1
    assert [message["content"] for message in again["messages"]][-1] == "0 asks 2"
    assert len(again["messages"]) == 5


def test_another_server_is_neither_watched_nor_probed(server: FakeServer) -> None:
    driven = run(server)
    assert driven.peak_kv_bytes is None
    assert driven.probes == ()
    assert not any("cache_salt" in body for body in server.bodies)


def test_the_time_limit_ends_the_agents_between_rounds(server: FakeServer) -> None:
    driven = run(server, LoadConfig(num_agents=2, num_rounds=3, time_limit_s=1e-9))
    assert driven.was_cut
    assert driven.rows == ()


def test_progress_counts_the_rounds(server: FakeServer) -> None:
    seen: list[tuple[int, int]] = []
    target = Target(server.url, {})
    asyncio.run(drive(target, SCRIPTS, LOAD, lambda done, total: seen.append((done, total))))
    assert seen == [(done, 6) for done in range(1, 7)]
