"""The simulated reader as a model: slots, time, tokens and failures around what it replies. Knows no document."""

from __future__ import annotations

import asyncio
from collections import Counter, deque

import numpy as np
from numpy.typing import NDArray

from convmem.core import Call, Completion, ContextExceeded, Finish, Transient, Usage
from convmem.model.simulated.behaviour import Behaviour
from convmem.model.simulated.reading import CHARACTERS_PER_TOKEN, Knowledge, Read
from convmem.model.simulated.replies import Said, reply


class FourCharacters:
    """Counts four characters as one token, whatever they are."""

    identity = "four characters"
    exact = True
    remote = False

    def count(self, text: str) -> int:
        """The number of tokens in ``text``."""
        return -(-len(text) // CHARACTERS_PER_TOKEN)

    def offsets(self, text: str) -> NDArray[np.uint32]:
        """The character at which each token starts."""
        return np.arange(0, len(text), CHARACTERS_PER_TOKEN, dtype=np.uint32)


class SimulatedReader:
    """A model that behaves as ``behaviour`` says and knows ``knowledge``.

    Of a call's settings, its seed, sample and attempt decide which draw a reply is, and nothing else.
    """

    def __init__(self, behaviour: Behaviour, knowledge: Knowledge | None = None) -> None:
        self.behaviour = behaviour
        self.knowledge = knowledge or Knowledge()
        self.tokenizer = FourCharacters()
        self._free = asyncio.Semaphore(behaviour.slots)
        self._tries: Counter[bytes] = Counter()
        self._kept: deque[str] = deque(maxlen=behaviour.slots)
        """The prompts that are computed and still kept, the one used last behind the others."""

    @property
    def identity(self) -> str:
        """Begins with ``simulated``. Readers of different knowledge share it: their replies go to separate caches."""
        return f"simulated:{self.behaviour}"

    @property
    def context(self) -> int:
        return self.behaviour.context

    @property
    def slots(self) -> int:
        return self.behaviour.slots

    @property
    def logprobs(self) -> bool:
        return self.behaviour.logprobs

    @property
    def tokens_per_second(self) -> tuple[float, float]:
        return self.behaviour.prefill, self.behaviour.decode

    def knowing(self, knowledge: Knowledge) -> SimulatedReader:
        """A reader that behaves as this one and knows ``knowledge``."""
        return SimulatedReader(self.behaviour, knowledge)

    async def prepare(self) -> None:
        """Nothing to prepare."""

    async def close(self) -> None:
        """Nothing to release."""

    async def complete(self, call: Call) -> Completion:
        """The reply to ``call``, after the time that reading and writing take in a free slot.

        Raises ContextExceeded at once, and Transient where the try is one that fails.
        """
        behaviour, clock = self.behaviour, asyncio.get_running_loop()
        size = sum(self.tokenizer.count(message.content) for message in call.messages)
        if size + call.sampling.max_tokens > behaviour.context:
            raise ContextExceeded(f"The simulated context has {behaviour.context:,} tokens.", behaviour.context)
        started = clock.time()
        async with self._free:
            said = self.answer(call, size)
            cached = self._cached(call)
            await asyncio.sleep((size - cached) / behaviour.prefill)
            self._keep(call)
            if said is None:
                raise Transient("The simulated server failed.")
            longest = CHARACTERS_PER_TOKEN * call.sampling.max_tokens
            finish: Finish = "length" if len(said[0]) > longest else "stop"
            text = said[0][:longest]
            written = self.tokenizer.count(text)
            await asyncio.sleep(written / behaviour.decode)
        return Completion(text, finish, Usage(size, cached, written), said[1], seconds=clock.time() - started)

    def answer(self, call: Call, size: int) -> Said | None:
        """What a prompt of ``size`` tokens is answered, whatever its limit; None where this try fails."""
        read = Read(self.behaviour, self.knowledge, call, size)
        return None if self._fails(read) else reply(read)

    def _cached(self, call: Call) -> int:
        """The tokens at the start of a prompt that are computed already; its last one never is."""
        prompt = _prompt(call)
        alike = max((_alike(prompt, kept) for kept in self._kept), default=0)
        return min(alike, max(len(prompt) - 1, 0)) // CHARACTERS_PER_TOKEN

    def _keep(self, call: Call) -> None:
        """Keep a prompt that was computed, in place of one that is mostly the same."""
        if self.behaviour.prefix_cache:
            prompt = _prompt(call)
            same = next((kept for kept in self._kept if 2 * _alike(prompt, kept) > len(kept)), None)
            if same is not None:
                self._kept.remove(same)
            self._kept.append(prompt)

    def _fails(self, read: Read) -> bool:
        """Whether this try of the call fails. Tries of one call are counted, so that the next one may succeed."""
        if not self.behaviour.failed:
            return False
        self._tries[read.key] += 1
        return read.draw(f"failed/{self._tries[read.key]}") < self.behaviour.failed


def _prompt(call: Call) -> str:
    return "".join(message.content for message in call.messages)


def _alike(one: str, other: str) -> int:
    """With how many characters both begin."""
    at, step = 0, 64
    while step:
        if one[at : at + step] == other[at : at + step] and at + step <= min(len(one), len(other)):
            at, step = at + step, step * 2
        else:
            step //= 2
    return at
