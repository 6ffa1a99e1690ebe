"""What the benchmarks of the pipeline share: a document of many windows, and ConvMem over it against a server."""

from __future__ import annotations

import random

from convmem.core import Answer, Call, Completion
from convmem.document import Document, EstimateTokenizer
from convmem.methods.convmem import Config, ConvMem
from convmem.model import Cache, Endpoint

QUESTION = "Who first proposed the tariff, when was it passed, and why?"


def document(tokens: int) -> Document:
    """Words by a fixed seed, as often as natural words are, about ``tokens`` tokens, counted in advance."""
    rng = random.Random(0)
    syllables = [consonant + vowel for consonant in "bdfgklmnprstv" for vowel in "aeiou"]
    vocabulary = ["".join(rng.choices(syllables, k=1 + rank.bit_length() // 5)) for rank in range(1, 5_000)]
    words = rng.choices(vocabulary, [1 / rank for rank in range(1, 5_000)], k=tokens * 12 // 13)
    made = Document.from_text("".join(f"{word} " if n % 16 else f"{word}. " for n, word in enumerate(words, 1)))
    made.token_offsets(EstimateTokenizer())
    return made


async def answer(read: Document, model: Endpoint, cache: Cache) -> Answer:
    """Preset ``paper``: windows of 8,000 tokens, each read for every sub-question."""
    return await ConvMem(Config.preset("paper")).answer(read, QUESTION, model=model, cache=cache)


class Recorder(Endpoint):
    """An endpoint that keeps the calls that went through it."""

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self.calls: list[Call] = []

    async def complete(self, call: Call) -> Completion:
        self.calls.append(call)
        return await super().complete(call)
