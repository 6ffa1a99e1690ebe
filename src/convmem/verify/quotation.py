"""Quotation, the check that needs no model: whether a text stands in a passage, as it is or but for its typesetting.

Letters, digits and their order decide, and a number counts as a whole, so that a wrong number or name never passes.
Knows texts only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from convmem.memory.quoting import UNSPACED
from convmem.run import Run
from convmem.verify.verifier import Judgement, Pair, premises

_TYPESET = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff"),
    }
)
_ANOTHER_NUMBER = ("<super>", "<sub>", "<fraction>", "<circle>")
"""Kinds of characters that NFKC makes digits of: 10² is not 102."""
_PARTED = re.compile(r"(?<=[^\W\d_])-[ \t]*\r?\n\s*(?=[^\W\d_])")
_OUTER = " \"'."
_BEFORE = r"(?<!\w)(?<!\d[.,:/])(?<!\s-)(?<!^-)(?<!\d (?=\d{3}))"
_AFTER = r"(?![.,:/]?\d)(?! \d{3}(?!\d))(?!\w)"


def normalized(text: str) -> str:
    """``text`` without what typesetting adds: compatibility forms, kinds of quotation marks, dashes and spaces."""
    return " ".join(_plain(text).split())


def quotes(quote: str, text: str) -> bool:
    """Whether ``quote`` stands in ``text`` but for typesetting and words parted at a line's end.

    Its first and last word or number must be whole ones; quotation marks and full stops around it don't count.
    """
    return any(_stands(sought.strip(_OUTER), within) for sought in _joined(quote) for within in _joined(text))


def _plain(text: str) -> str:
    composed = unicodedata.normalize("NFC", text)
    if not composed.isascii():
        composed = "".join(
            char if unicodedata.decomposition(char).startswith(_ANOTHER_NUMBER) else unicodedata.normalize("NFKC", char)
            for char in composed
        )
    return unicodedata.normalize("NFC", composed.translate(_TYPESET))


def _joined(text: str) -> set[str]:
    """The text's forms: a hyphen at a line's end may part a word, or belong to it."""
    plain = _plain(text)
    return {" ".join(_PARTED.sub(hyphen, plain).split()) for hyphen in ("", "-")}


def _stands(sought: str, within: str) -> bool:
    if not sought:
        return False
    before = _BEFORE if _bounded(sought[0]) else ""
    after = _AFTER if _bounded(sought[-1]) else ""
    return re.search(before + re.escape(sought) + after, within) is not None


def _bounded(char: str) -> bool:
    """Whether a word that begins or ends with ``char`` can be told from a part of one."""
    return char.isalnum() and not UNSPACED.match(char)


class Quotation:
    """A verifier that accepts what a premise says word for word, and nothing else."""

    default_threshold = 0.5
    reserve = 0

    async def prepare(self) -> None:
        pass

    def identity(self, run: Run) -> str:
        return "quotation"

    async def judge(
        self, pairs: Sequence[Pair], run: Run, *, answering: bool = False, parents: tuple[int, ...] = ()
    ) -> list[Judgement]:
        return [Judgement(float(any(quotes(pair.hypothesis, text) for text in premises(pair, run)))) for pair in pairs]
