"""Run the quality benchmark: every trace, policy and budget, each once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memdecay import __version__
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.runtime.bench.caches.make import Contestants
from memdecay.runtime.bench.caches.variants import Variant
from memdecay.runtime.bench.quality.case import QualityCase
from memdecay.runtime.bench.quality.evaluate import evaluate
from memdecay.runtime.bench.quality.reference import Reference, load_reference, make_reference
from memdecay.runtime.bench.quality.row import QualityRow
from memdecay.runtime.bench.quality.store import RowStore

logger = logging.getLogger(__name__)

OnProgress = Callable[[int, int], None]
_FULL = "full"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a benchmark keeps what it computes.

    Attributes:
        results: Folder of rows and results.
        references: Folder of full-cache references; several benchmarks may share one.
    """

    results: Path
    references: Path


@dataclass(frozen=True)
class _Job:
    variant: Variant
    budget: float
    key: str


class QualityBenchmark:
    """Measures variants with budgets on traces.

    Args:
        contestants: Makes the caches.
        places: Where results and references are kept.
        is_redone: Whether rows that are there already are computed again.
        identity: Names what else the results depend on: the classifier, region settings.
    """

    def __init__(
        self,
        contestants: Contestants,
        places: Places,
        *,
        is_redone: bool = False,
        identity: str = "",
    ) -> None:
        self._contestants = contestants
        self._places = places
        self._store = RowStore(places.results)
        self._is_redone = is_redone
        llm = contestants.llm
        self._llm_id = f"{llm_fingerprint(llm.model)} {llm.dtype} {contestants.config}"
        self._identity = identity
        self._num_done = self._num_total = 0

    def run(
        self,
        cases: Sequence[QualityCase],
        variants: Sequence[Variant],
        budgets: Sequence[float],
        on_progress: OnProgress | None = None,
    ) -> list[QualityRow]:
        """Measure what has not been measured yet and return all rows.

        The results file is written anew after each row. ``full`` is measured once a trace.

        Args:
            cases: The traces.
            variants: What to compare.
            budgets: Shares of the full cache's bytes, above 0, at most 1.
            on_progress: Called with the tokens read and the tokens in all.

        Raises:
            BudgetError: A budget can't hold the protected tokens and a chunk of some trace.
            ConfigError: A variant needs a tagger that was not given.
            StorageError: A result could not be written.
        """
        for variant in variants:
            self._contestants.check(variant, cases)
        plan = [(case, self._jobs(case, variants, budgets)) for case in cases]
        rows = {job.key: self._load(job) for _, jobs in plan for job in jobs}
        self._count(plan, rows)

        def report(num_tokens: int) -> None:
            self._num_done += num_tokens
            if on_progress:
                on_progress(self._num_done, self._num_total)

        for case, jobs in plan:
            missing = [job for job in jobs if rows[job.key] is None]
            if not missing:
                continue
            reference = self._reference(case, report)
            for job in missing:
                row = evaluate(job.variant, job.budget, case, reference, self._contestants, report)
                logger.debug("%s %s %g: KL %.4f", row.trace, row.policy, row.budget, row.kl)
                self._store.save(job.key, row)
                rows[job.key] = row
                self._store.write_results(row for row in rows.values() if row is not None)
        found = [row for row in rows.values() if row is not None]
        self._store.write_results(found)
        return found

    def _jobs(
        self, case: QualityCase, variants: Sequence[Variant], budgets: Sequence[float]
    ) -> list[_Job]:
        return [
            _Job(variant, budget, self._key(case, variant, budget))
            for variant in variants
            for budget in ((1.0,) if variant.policy == _FULL else budgets)
        ]

    def _key(self, case: QualityCase, variant: Variant, budget: float) -> str:
        config = self._contestants.cache_config(variant, budget, case.num_tokens)
        tags = self._contestants.tags_of(variant)
        about_tags = "" if tags == "none" else self._identity
        if tags == "gold":
            about_tags += case.regions.tobytes().hex()
        return repr(
            (
                __version__,
                self._llm_id,
                case.digest,
                case.trace.id,
                variant,
                budget,
                config,
                tags,
                about_tags,
            )
        )

    def _load(self, job: _Job) -> QualityRow | None:
        return None if self._is_redone else self._store.load(job.key)

    def _count(
        self,
        plan: Sequence[tuple[QualityCase, Sequence[_Job]]],
        rows: dict[str, QualityRow | None],
    ) -> None:
        self._num_done = self._num_total = 0
        for case, jobs in plan:
            num_missing = sum(rows[job.key] is None for job in jobs)
            if num_missing:
                needs_reference = load_reference(self._reference_folder(case)) is None
                self._num_total += case.num_tokens * (num_missing + needs_reference)

    def _reference(self, case: QualityCase, report: Callable[[int], None]) -> Reference:
        folder = self._reference_folder(case)
        known = load_reference(folder)
        if known is not None:
            return known
        contestants = self._contestants
        return make_reference(folder, case, contestants.llm, contestants.config, report)

    def _reference_folder(self, case: QualityCase) -> Path:
        fingerprint, dtype = self._llm_id.split(" ")[:2]
        config = self._contestants.config
        name = "-".join(
            (
                fingerprint,
                dtype.removeprefix("torch."),
                str(config.chunk_tokens),
                str(config.continuation_tokens),
                case.digest,
            )
        )
        return self._places.references / name
