"""Incidents in services: causes, the log lines that show them, and the noise around."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.wording import Wording

SERVICES = (
    "checkout",
    "mailer",
    "search-index",
    "thumbnailer",
    "ledger",
    "login",
    "webhooks",
    "exports",
)
_NOISE = (
    "INFO  http 200 GET /healthz {ms}ms",
    "INFO  http 200 GET /api/v1/items?page={n} {ms}ms",
    "DEBUG cache hit key=item:{n}",
    "INFO  worker-{n} heartbeat",
    "DEBUG gc pause {ms}ms heap={n}MB",
    "INFO  scheduled job prune_sessions finished in {ms}ms",
    "WARN  slow query ({ms}ms) SELECT name FROM tags WHERE id = {n}",
    "INFO  http 304 GET /assets/app.{n}.js {ms}ms",
    "DEBUG feature flag new_footer=off for tenant {n}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a service fails.

    Attributes:
        name: The cause in a few words (template with ``{service}``).
        evidence: Log lines that show it (templates).
        remedy: What to do (template).
        command: Command that does it.
        check: What shows that it worked.
    """

    name: str
    evidence: tuple[str, ...]
    remedy: str
    command: str
    check: str


CAUSES = (
    Cause("the connection pool of {service} is exhausted", ("ERROR pool timeout after 5000ms: 40 of 40 connections in use", "ERROR could not serve request {n}: no connection"), "raise the pool to 80 and recycle idle connections", "kubectl set env deploy/{service} DB_POOL_SIZE=80 DB_POOL_IDLE_S=60", "p95 latency 210ms, pool 33/80"),
    Cause("the certificate of the upstream has expired", ("ERROR tls handshake failed: certificate has expired (notAfter 2031-03-02)", "WARN  circuit breaker open for upstream rates-{n}"), "renew the certificate and restart the proxy", "certctl renew rates-upstream && systemctl restart edge-proxy", "handshake ok, expires 2032-03-01"),
    Cause("the disk of the {service} node is full", ("ERROR write failed: no space left on device (/var/lib/{service})", "ERROR snapshot {n} aborted"), "delete the old snapshots and turn on rotation", "find /var/lib/{service}/snapshots -mtime +7 -delete", "usage 41 %, snapshot written"),
    Cause("a bad release of {service} reads a missing setting", ("ERROR startup: KeyError 'RATE_TABLE_URL'", "INFO  release 4.{n} started, previous 4.18"), "roll back to 4.18 and add the setting before the next release", "deployctl rollback {service} --to 4.18", "4.18 healthy on 6 of 6 instances"),
    Cause("clock drift makes {service} reject valid tokens", ("ERROR token rejected: issued 94s in the future (iat)", "WARN  ntp: no server reachable since {n} minutes"), "allow NTP through the new firewall rule and resync", "firewallctl allow udp/123 --from {service} && chronyc makestep", "offset 0.004s, rejected tokens 0"),
    Cause("one poisoned message blocks the queue of {service}", ("ERROR cannot decode message {n}: unexpected end of input, requeued", "WARN  consumer lag 18422 on partition 3"), "move the message to the dead-letter queue and cap the retries at five", "queuectl move --partition 3 --head --to {service}.dead && queuectl set-retries {service} 5", "lag 0 on partition 3"),
)  # fmt: skip


def log_lines(
    wording: Wording, cause: Cause, service: str, count: int
) -> tuple[list[str], set[int]]:
    """Return ``count`` lines of noise with the evidence among them, and where the evidence is."""
    second = wording.number(0, 1800)
    number = wording.number(100, 9999)
    rows = [
        wording(wording.pick(_NOISE), ms=wording.number(1, 900), n=wording.number(1, 9999))
        for _ in range(count)
    ]
    evidence = [wording(line, service=service, n=number) for line in cause.evidence]
    place = wording.number(1, count - 1)
    rows[place:place] = evidence
    lines = []
    for row in rows:
        second += wording.number(0, 4)
        lines.append(
            f"2031-03-04T{10 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z {service} {row}"
        )
    return lines, set(range(place, place + len(evidence)))
