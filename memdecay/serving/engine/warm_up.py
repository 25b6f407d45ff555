"""Keep the beginnings that sessions share, and read those that the operator names."""

from __future__ import annotations

import logging

from memdecay.classifier.errors import MemdecayError
from memdecay.serving.engine.config import SharedPrompt
from memdecay.serving.engine.model.memory import SessionMemory
from memdecay.serving.engine.model.runner import Row
from memdecay.serving.engine.model.state import save_memory
from memdecay.serving.engine.parts import Parts
from memdecay.serving.engine.request import GenerationRequest
from memdecay.serving.engine.sessions.prefix_cache import Prefix
from memdecay.serving.engine.sessions.store import salt_of
from memdecay.serving.engine.turns.begin import PUBLIC_ROOT, prefix_root
from memdecay.serving.engine.turns.prompt import Prompt, make_prompt
from memdecay.serving.engine.turns.turn import Turn

logger = logging.getLogger(__name__)


class PrefixKeeper:
    """Puts beginnings into the prefix cache.

    A conversation's system messages are its beginning, up to the end of a whole block. Every
    session's reading pauses there, whether the beginning is kept or not, so that a session that
    starts from the cache goes through the same forwards as one that does not.

    Args:
        parts: The engine's parts.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def pause(self, prompt: Prompt) -> int:
        """Return the number of tokens after which reading pauses; 0 for no pause."""
        if not self._parts.prefixes.is_on:
            return 0
        return self._parts.prefixes.boundary(prompt.num_system_tokens())

    def next_stop(self, prompt: Prompt, start: int) -> int:
        """Return where a chunk that begins at ``start`` ends at the latest."""
        pause = self.pause(prompt)
        end = start + self._parts.chunk_tokens
        return min(end, pause) if start < pause else end

    def keep(self, turn: Turn) -> None:
        """Keep a session's beginning if it has just been read and is not known yet."""
        session = turn.session
        memory = session.memory
        if memory is not None and 0 < memory.num_tokens == self.pause(turn.prompt):
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
        end = self._parts.prefixes.boundary(num_given)
        memory = self._parts.new_memory()
        reading = prompt.reading(0, len(prompt.tokens))
        if memory.tagger is not None and reading is not None:
            memory.tagger.read(reading)
        while (start := memory.num_tokens) < end:
            stop = min(self.next_stop(prompt, start), end)
            self._parts.runner.run([Row(memory, prompt.tokens.part(start, stop))])
        root = PUBLIC_ROOT
        if shared.tenant is not None:
            root = prefix_root(shared.tenant, salt_of(request))
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
        state = save_memory(memory, self._parts.llm.device)
        weight = float(memory.cache.slots.importance.mean())
        return prefixes.add(root, Prefix(token_ids, state, weight, is_kept))
