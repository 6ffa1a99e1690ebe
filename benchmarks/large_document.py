"""Memory and time of planning and windowing a document of 10 million tokens, beside tokenizing it.

    CONVMEM_GGUF=model.gguf python -m benchmarks.large_document

Preset ``paper``, tokens by the vocabulary of the GGUF file. Targets: 400 MB at the peak, 1.25 times the tokenizing.
"""

from __future__ import annotations

import os
import random
import resource
import tempfile
import time
from pathlib import Path

from convmem import plan
from convmem.document import GgufTokenizer

CHARACTERS = 40_000_000
MEGABYTE = 1_000_000


COMMON = ("the", "of", "and", "a", "to", "in", "is", "it", "that", "was", "for", "on", "are", "with", "as", "his")


def write_prose(path: Path) -> None:
    """Sentences of common words and made-up names, about four characters a token."""
    chance = random.Random(1)
    names = ["".join(chance.choices("aeioulnrst", k=chance.randint(4, 9))).capitalize() for _ in range(100)]
    with path.open("w") as file:
        while file.tell() < CHARACTERS:
            file.write(" ".join(chance.choices(COMMON * 50 + tuple(names), k=20)) + chance.choice((". ", ".\n\n")))


def main() -> None:
    model = os.environ["CONVMEM_GGUF"]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "long.txt")
        write_prose(path)
        text = path.read_text()
        started = time.perf_counter()
        GgufTokenizer(model).offsets(text)
        tokenizing = time.perf_counter() - started
        del text

        started = time.perf_counter()
        expected = plan(path, model=model, preset="paper")
        planning = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE
    print(
        f"{expected.tokens:,} tokens, {expected.windows:,} windows: "
        f"tokenizing {tokenizing:.1f} s, reading, windows and plan {planning:.1f} s"
    )
    print(f"peak memory {peak:.0f} MB (target at most 400)")
    print(f"ratio {planning / tokenizing:.2f} (target at most 1.25)")


if __name__ == "__main__":
    main()
