"""Invented words that look like names: number ``k`` always gives the same word, and different numbers different ones.

Knows syllables only.
"""

from __future__ import annotations

_ONSETS = ("b", "br", "d", "dr", "f", "g", "gr", "h", "k", "kr", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v")
_VOWELS = ("a", "e", "i", "o", "u")
_CODAS = ("l", "n", "r", "s", "th", "m", "nd", "sk", "x", "rn")

_SYLLABLES = len(_ONSETS) * len(_VOWELS)
WORDS = _SYLLABLES**3 * len(_CODAS)
"""How many words there are."""

_STRIDE = 6_180_339
"""Prime to ``WORDS``: neighbouring numbers give words that don't look alike."""


def word(number: int) -> str:
    """The word of ``number``, capitalized. Numbers count modulo ``WORDS``."""
    rest, coda = divmod(number * _STRIDE % WORDS, len(_CODAS))
    syllables = ""
    for _ in range(3):
        rest, syllable = divmod(rest, _SYLLABLES)
        onset, vowel = divmod(syllable, len(_VOWELS))
        syllables += _ONSETS[onset] + _VOWELS[vowel]
    return (syllables + _CODAS[coda]).capitalize()
