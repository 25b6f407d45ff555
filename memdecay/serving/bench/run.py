"""The whole benchmark: one contestant after the other, each kept as soon as it is done."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from memdecay.classifier.errors import ServerError
from memdecay.classifier.storage import write_text_atomically
from memdecay.serving.bench.config import LoadConfig
from memdecay.serving.bench.contestants import Launch
from memdecay.serving.bench.driver import Driven, Target, drive
from memdecay.serving.bench.process import free_port, running_server, termination_as_interrupt
from memdecay.serving.bench.row import ServerRun
from memdecay.serving.bench.workload import AgentScript, digest_of

_RUNS_FOLDER = "runs"
_LOGS_FOLDER = "logs"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ServingBenchmark:
    """Measures contestants with one workload.

    Attributes:
        folder: Gets the runs and the servers' logs.
        scripts: What each agent says.
        config: The settings.
        is_redone: Whether to measure again what was measured already.
    """

    folder: Path
    scripts: tuple[AgentScript, ...]
    config: LoadConfig
    is_redone: bool = False

    def measure(self, name: str, launch: Launch, progress: Progress) -> ServerRun:
        """Start a contestant and measure it, or return its run if it was measured before.

        Raises:
            ServerError: It could not be started, or no round of it succeeded.
            StorageError: The run or the log can't be written.
        """
        identity = self._identity([*launch.command, json.dumps(launch.fields)])
        known = None if self.is_redone else self._load(name, identity)
        if known is not None:
            return known
        port = free_port()
        command = (*launch.command, "--port", str(port))
        log = self.folder / _LOGS_FOLDER / f"{name}.log"
        with (
            termination_as_interrupt(),
            running_server(command, launch.environment, port, log) as server,
        ):
            target = Target(
                server.url,
                launch.fields,
                tells_memory=launch.is_memdecay,
                can_salt=launch.is_memdecay,
            )
            driven = asyncio.run(drive(target, self.scripts, self.config, progress))
            peak = server.peak_rss_bytes()
        return self._keep(name, identity, driven, peak)

    def measure_running(self, name: str, target: Target, progress: Progress) -> ServerRun:
        """Measure a server that runs already; what it was asked before is not known.

        Raises:
            ServerError: No round succeeded.
            StorageError: The run can't be written.
        """
        identity = self._identity([target.url, json.dumps(target.fields)])
        known = None if self.is_redone else self._load(name, identity)
        if known is not None:
            return known
        driven = asyncio.run(drive(target, self.scripts, self.config, progress))
        return self._keep(name, identity, driven, None)

    def _keep(self, name: str, identity: str, driven: Driven, peak: int | None) -> ServerRun:
        errors = [row.error for row in driven.rows if row.error]
        if len(errors) == len(driven.rows):
            raise ServerError(
                f"{name} answered no round ({errors[0] if errors else 'none was begun'}); mend "
                "that and give the command again"
            )
        run = ServerRun(
            name=name,
            identity=identity,
            rows=driven.rows,
            probes=driven.probes,
            peak_rss_bytes=peak,
            peak_kv_bytes=driven.peak_kv_bytes,
            kv_limit_bytes=driven.kv_limit_bytes,
            was_cut=driven.was_cut,
        )
        write_text_atomically(self._path(name), json.dumps(run.to_dict()) + "\n")
        return run

    def _load(self, name: str, identity: str) -> ServerRun | None:
        try:
            run = ServerRun.from_dict(json.loads(self._path(name).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return run if run.identity == identity else None

    def _identity(self, facts: Sequence[str]) -> str:
        parts = [digest_of(self.scripts), json.dumps(asdict(self.config)), *facts]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]

    def _path(self, name: str) -> Path:
        return self.folder / _RUNS_FOLDER / f"{name}.json"
