"""Prometheus metrics, named like vLLM's under `memdecay:`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from memdecay.serving.engine.events import Delta, Finished, FinishReason
from memdecay.serving.engine.request import ErrorKind
from memdecay.serving.engine.views import EngineStats, TierUse

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_TOKENS = tuple(2.0**power for power in range(5, 18))

# Series that begin at 0: Prometheus takes the first value that it sees of one for no increase.
_ENDINGS: tuple[str, ...] = get_args(FinishReason)
_FAILURES = tuple(map(str, ErrorKind))
_LEFT_TO = ("cpu", "disk", "none")
_BACK_FROM = ("cpu", "disk")


class Instruments:
    """The metrics of one server, in a registry of their own.

    Args:
        read_stats: Gives the engine's figures; called at each scrape.
    """

    def __init__(self, read_stats: Callable[[], EngineStats]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(read_stats))
        self._first_token = self._histogram(
            "time_to_first_token_seconds", "From the request to its first token.", _SECONDS
        )
        self._between_tokens = self._histogram(
            "inter_token_latency_seconds", "Between two tokens of an answer.", _TOKEN_SECONDS
        )
        self._end_to_end = self._histogram(
            "e2e_request_latency_seconds", "From the request to its end.", _SECONDS
        )
        self._queue = self._histogram(
            "request_queue_time_seconds", "From the request to the first work on it.", _SECONDS
        )
        self._session_length = self._histogram(
            "session_length_tokens", "Tokens that a session has seen after a turn.", _TOKENS
        )
        self._http = Counter(
            "memdecay:http_requests",
            "HTTP requests by route and status.",
            ("route", "status"),
            registry=self._registry,
        )

    def token_clock(self) -> TokenClock:
        """Return what measures the time between the tokens of one answer."""
        return TokenClock(self._between_tokens)

    def finished(self, finished: Finished) -> None:
        """Count a request that ran to its end."""
        timings = finished.timings
        if timings.first_token_s is not None:
            self._first_token.observe(timings.first_token_s)
        self._end_to_end.observe(timings.total_s)
        self._queue.observe(timings.queue_s)
        self._session_length.observe(finished.memory.tokens_seen)

    def answered(self, route: str, status: int) -> None:
        """Count an HTTP request."""
        self._http.labels(route, str(status)).inc()

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format; waits for the engine's step."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"memdecay:{name}", text, buckets=buckets, registry=self._registry)


class TokenClock:
    """Measures the time between the tokens of one answer."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._last: float | None = None

    def tick(self, delta: Delta) -> None:
        """Take note of new tokens; several at once share the time."""
        now = time.perf_counter()
        if self._last is not None and delta.token_ids:
            seconds = (now - self._last) / len(delta.token_ids)
            for _ in delta.token_ids:
                self._histogram.observe(seconds)
        self._last = now


class _EngineCollector(Collector):
    """Turns the engine's figures into metrics when they are asked for."""

    def __init__(self, read_stats: Callable[[], EngineStats]) -> None:
        self._read_stats = read_stats

    def describe(self) -> list[Metric]:
        return []  # Else registering would collect, and so wait for the engine.

    def collect(self) -> Iterator[Metric]:
        stats = self._read_stats()
        yield from _gauges(stats)
        yield from _counters(stats)


def _gauges(stats: EngineStats) -> Iterator[Metric]:
    device = stats.tiers["device"]
    yield _gauge("num_requests_running", "Requests being read or answered.", stats.num_running)
    yield _gauge("num_requests_waiting", "Requests in the queue.", stats.num_waiting)
    yield _gauge("kv_cache_usage_perc", "Share of the KV memory in use, 0 to 1.", _share(device))
    yield _labelled(
        "kv_cache_bytes",
        "Bytes of the KV memory: as allocated, promised to sessions, and filled with tokens.",
        "kind",
        {
            "allocated": device.used_bytes,
            "reserved": stats.reserved_bytes,
            "occupied": stats.occupied_bytes,
        },
    )
    yield _gauge(
        "watermark_level",
        "Share of the KV memory promised to sessions, 0 to 1.",
        stats.watermark_level,
    )
    yield _labelled(
        "region_tokens", "Tokens kept on the device, by region.", "region", stats.region_tokens
    )
    tiers = {**stats.tiers, "prefix_cache": stats.prefix_cache}
    yield _labelled(
        "tier_sessions",
        "Sessions in each tier.",
        "tier",
        {name: use.num_sessions for name, use in tiers.items()},
    )
    yield _labelled(
        "tier_used_bytes",
        "Bytes in each tier.",
        "tier",
        {name: use.used_bytes for name, use in tiers.items()},
    )
    yield _labelled(
        "tier_limit_bytes",
        "Bytes that each tier may take.",
        "tier",
        {name: use.limit_bytes for name, use in tiers.items() if use.limit_bytes is not None},
    )


def _counters(stats: EngineStats) -> Iterator[Metric]:
    for name, text, value in (
        ("prompt_tokens", "Tokens of prompts.", stats.prompt_tokens_total),
        ("cached_tokens", "Prompt tokens not run again.", stats.cached_tokens_total),
        ("generation_tokens", "Tokens of answers.", stats.generated_tokens_total),
        ("prefix_cache_queries", "Tokens looked up in the cache.", stats.prefix_queries_total),
        ("prefix_cache_hits", "Tokens found in the cache.", stats.prefix_hits_total),
        ("sessions_recomputed", "Sessions read again from the start.", stats.recomputed_total),
    ):
        family = CounterMetricFamily(f"memdecay:{name}", text)
        family.add_metric([], value)
        yield family
    yield _counted(
        "evicted_tokens", "Evicted tokens by region.", "region", (), stats.evicted_tokens_total
    )
    yield _counted(
        "request_success",
        "Requests by how they ended.",
        "finished_reason",
        _ENDINGS,
        stats.finished_total,
    )
    yield _counted(
        "request_failure",
        "Requests refused or failed, by kind.",
        "kind",
        _FAILURES,
        stats.failed_total,
    )
    yield _counted(
        "sessions_offloaded", "Sessions moved to a tier.", "tier", _LEFT_TO, stats.offloaded_total
    )
    yield _counted(
        "sessions_restored",
        "Sessions brought back from a tier.",
        "tier",
        _BACK_FROM,
        stats.restored_total,
    )


def _counted(
    name: str, text: str, label: str, first: Iterable[str], values: Mapping[str, int]
) -> Metric:
    """Return a counter by label, in which the first ones are there before they count anything."""
    begun = dict.fromkeys(first, 0) | dict(values)
    return _labelled(name, text, label, begun, CounterMetricFamily)


def _share(use: TierUse) -> float:
    return use.used_bytes / use.limit_bytes if use.limit_bytes else 0.0


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"memdecay:{name}", text, value=value)


def _labelled(
    name: str,
    text: str,
    label: str,
    values: Mapping[str, float],
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    family = kind(f"memdecay:{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
