"""Take the snapshots of many traces, each once, and judge them, each question once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from memdecay import __version__
from memdecay.classifier.artifact import CHECKPOINT_FILE
from memdecay.classifier.card import ClassifierCard
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.propagation import PropagationConfig
from memdecay.classifier.region_settings import RegionSettings
from memdecay.runtime.bench.quality.case import QualityCase
from memdecay.runtime.bench.quality.config import QualityConfig
from memdecay.runtime.foresight.packaged import packaged_head
from memdecay.runtime.tagging import SessionTagger
from memdecay.runtime.tuning.capture import Moment, choose_moments, snapshot_key, take_snapshot
from memdecay.runtime.tuning.evaluate import SnapshotJudge
from memdecay.runtime.tuning.evidence import Evidence, read_evidence
from memdecay.runtime.tuning.snapshot import Snapshot
from memdecay.runtime.tuning.store import TuningStore

OnProgress = Callable[[int, int], None]
_SPARE_ROOM = 1.25


@dataclass(frozen=True, slots=True)
class MomentsConfig:
    """Where snapshots are taken.

    Attributes:
        per_trace: Most snapshots of a trace.
        next_tokens: Tokens read behind each of them.
        budget: Share of the past's bytes that the cache is to have.
    """

    per_trace: int = 1
    next_tokens: int = 256
    budget: float = 0.125

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        if self.per_trace < 1:
            raise ValueError(f"per_trace must be 1 or more, got {self.per_trace}")
        if self.next_tokens < 2:
            raise ValueError(f"next_tokens must be 2 or more, got {self.next_tokens}")
        if not 0 < self.budget <= 1:
            raise ValueError(f"budget must be above 0 and at most 1, got {self.budget}")

    @property
    def min_past(self) -> int:
        """Tokens before which the budget does not hold the protected tokens and some others."""
        config = QualityConfig()
        needed = config.num_sinks + config.num_recent + config.chunk_tokens
        return math.ceil(_SPARE_ROOM * needed / self.budget)


def tags_identity(card: ClassifierCard) -> str:
    """Name all of a classifier that its probabilities, and how importance spreads, depend on.

    Its scores are left out: importance is that of the table which is judged. So is what was
    measured or noted about it, that a fit may go on with another card for the same network.
    """
    weights = card.files.get(CHECKPOINT_FILE)
    return repr((weights, card.feature_layout, card.network, card.temperature, card.propagation))


@dataclass(frozen=True)
class Tuning:
    """What a fit works on.

    Attributes:
        llm: The language model.
        store: Keeps what was computed.
        config: Where snapshots are taken.
        tagger_of: Gives the tagger of a trace.
        identity: Names the source of the tags.
        propagation: How importance spreads; None for the default.
    """

    llm: LanguageModel
    store: TuningStore
    config: MomentsConfig
    tagger_of: Callable[[QualityCase], SessionTagger]
    identity: str
    propagation: PropagationConfig | None = None

    def gather(
        self, cases: Sequence[QualityCase], on_progress: OnProgress | None = None
    ) -> list[tuple[str, str]]:
        """Take the snapshots that the store does not have yet.

        Args:
            cases: The traces.
            on_progress: Called with the tokens read and the tokens in all.

        Returns:
            Key and trace of every snapshot, in the traces' order; traces that are too short, or
            in which the assistant writes nothing late enough, have none.

        Raises:
            StorageError: A snapshot could not be written.
            ArtifactError: The tagger was made for another language model.
            ModelError: The model has layers that can't be tuned.
        """
        found = [(case, moment, self._key(case, moment)) for case, moment in self._moments(cases)]
        missing = [entry for entry in found if not self.store.has_snapshot(entry[2])]
        total = sum(moment.stop for _, moment, _ in missing)
        num_done = 0

        def report(num_tokens: int) -> None:
            nonlocal num_done
            num_done += num_tokens
            if on_progress:
                on_progress(num_done, total)

        for case, moment, key in missing:
            snapshot = take_snapshot(self.llm, case, self.tagger_of(case), moment, report)
            self.store.save_snapshot(key, snapshot)
        return [(key, case.trace.id) for case, _, key in found]

    def evidence(
        self, keys: Sequence[str], on_progress: OnProgress | None = None
    ) -> dict[str, Evidence]:
        """Return what the tokens of snapshots are and what became of them, each read once.

        Args:
            keys: Snapshots that were gathered.
            on_progress: Called with the snapshots that are done and those in all.

        Raises:
            ValueError: There is no such snapshot.
            StorageError: The outcome could not be written.
        """
        found = {}
        for number, key in enumerate(keys, start=1):
            found[key] = self._evidence(key)
            if on_progress:
                on_progress(number, len(keys))
        return found

    def judge(self, key: str, settings: RegionSettings | None) -> float:
        """Return the divergence at a snapshot that was gathered; None asks without regions.

        Raises:
            ValueError: There is no such snapshot.
            StorageError: The answer could not be written.
        """
        num_past = self.store.num_past(key)
        if num_past is None:
            raise ValueError(_missing(key))
        config = self._judge.config(num_past, settings)
        table = None if settings is None else settings.table
        question = repr((__version__, key, config, table))
        known = self.store.judgement(question)
        if known is not None:
            return known
        kl = self._judge.judge(self._snapshot(key), settings)
        self.store.save_judgement(question, kl)
        return kl

    @cached_property
    def _judge(self) -> SnapshotJudge:
        return SnapshotJudge(self.llm, self.config.budget, self.propagation)

    def _snapshot(self, key: str) -> Snapshot:
        snapshot = self.store.snapshot(key)
        if snapshot is None:
            raise ValueError(_missing(key))
        return snapshot

    def _evidence(self, key: str) -> Evidence:
        head = packaged_head(self.llm.name)
        identity = repr((__version__, key, head, "evidence"))
        evidence_key = hashlib.sha256(identity.encode()).hexdigest()[:20]
        known = self.store.evidence(evidence_key)
        if known is None:
            known = read_evidence(self.llm, self._snapshot(key), head)
            self.store.save_evidence(evidence_key, known)
        return known

    def _moments(self, cases: Sequence[QualityCase]) -> list[tuple[QualityCase, Moment]]:
        config = self.config
        return [
            (case, moment)
            for case in cases
            if case.num_tokens > config.min_past
            for moment in choose_moments(
                case, config.per_trace, config.next_tokens, config.min_past
            )
        ]

    def _key(self, case: QualityCase, moment: Moment) -> str:
        model = f"{llm_fingerprint(self.llm.model)} {self.llm.dtype}"
        return snapshot_key(case, moment, __version__, model, self.identity)


def _missing(key: str) -> str:
    return f"the snapshot {key} is missing or damaged; gather it again"
