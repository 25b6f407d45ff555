"""Keep the beginnings that sessions share, and read those that the operator names."""

from __future__ import annotations

import logging

from memdecay.classifier.errors import MemdecayError
from memdecay.runtime.layer import bookkeeping
from memdecay.serving.engine.config import SharedPrompt
from memdecay.serving.engine.model.memory import SessionMemory
from memdecay.serving.engine.model.runner import Row
from memdecay.serving.engine.model.state import memory_state
from memdecay.serving.engine.parts import Parts
from memdecay.serving.engine.request import GenerationRequest
from memdecay.serving.engine.sessions.store import salt_of
from memdecay.serving.engine.turns.begin import PUBLIC_ROOT, prefix_root
from memdecay.serving.engine.turns.prompt import Prompt, make_prompt
from memdecay.serving.engine.turns.stops import block_end
from memdecay.serving.engine.turns.turn import Turn

logger = logging.getLogger(__name__)


class PrefixKeeper:
    """Puts beginnings into the prefix cache: what was read at each of their stops.

    Args:
        parts: The engine's parts.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def keep(self, turn: Turn) -> None:
        """Keep what a session has read if it is a beginning that is not known yet."""
        session = turn.session
        memory = session.memory
        stops = self._parts.stops
        if memory is None or not stops.is_shared_stop(turn.prompt, memory.num_tokens):
            return
        if _has_all_bits(memory) or memory.num_tokens == stops.pause(turn.prompt):
            root = prefix_root(session.tenant, session.salt)
            self._keep(root, turn.prompt, memory, is_kept=False)

    def warm_up(self) -> None:
        """Read the prompts of the configuration, which the cache then keeps in any case."""
        if not self._parts.prefixes.is_on:
            return
        for shared in self._parts.config.shared_prompts:
            try:
                self._read(shared)
            except MemdecayError as error:
                logger.warning("a shared prompt could not be read: %s", error)

    def _read(self, shared: SharedPrompt) -> None:
        request = GenerationRequest(
            tenant=shared.tenant or "",
            messages=shared.messages,
            tools=shared.tools,
            cache_salt=shared.cache_salt,
        )
        prompt = make_prompt(request, self._parts.llm.tokenizer)
        num_given = int((prompt.tokens.message_index < len(prompt.messages)).sum())
        end = block_end(num_given)
        memory = self._parts.new_memory()
        reading = prompt.reading(0, len(prompt.tokens))
        if memory.tagger is not None and reading is not None:
            memory.tagger.read(reading)
        root = PUBLIC_ROOT
        if shared.tenant is not None:
            root = prefix_root(shared.tenant, salt_of(request))
        stops = self._parts.stops
        while (start := memory.num_tokens) < end:
            stop = min(stops.next_stop(prompt, start), end)
            self._parts.runner.run([Row(memory, prompt.tokens.part(start, stop))])
            if stop < end and stops.is_shared_stop(prompt, stop) and _has_all_bits(memory):
                self._keep(root, prompt, memory, is_kept=True)
        if not end or not self._keep(root, prompt, memory, is_kept=True):
            logger.warning(
                "a shared prompt of %d tokens is not kept: it is shorter than a block, longer than "
                "a session's budget, or larger than the prefix cache",
                num_given,
            )

    def _keep(self, root: bytes, prompt: Prompt, memory: SessionMemory, *, is_kept: bool) -> bool:
        prefixes = self._parts.prefixes
        token_ids = prompt.tokens.input_ids[: memory.num_tokens]
        if memory.cache.tokens_kept != memory.num_tokens or prefixes.holds(root, token_ids):
            return False
        weight = float(memory.cache.slots.importance.mean())
        with bookkeeping():
            return prefixes.add(root, token_ids, memory_state(memory), weight, is_kept=is_kept)


def _has_all_bits(memory: SessionMemory) -> bool:
    """Tell whether all tokens are at full precision, so that a longer beginning shares them."""
    return not memory.cache.layout.num_faded
