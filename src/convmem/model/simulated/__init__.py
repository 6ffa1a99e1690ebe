"""A simulated reader: behaves as a model by stated parameters, so that millions of tokens are studied in seconds.

It knows the facts that a question needs, and sees nothing but a call's rendered messages, its role and how many
sub-questions it names. A fact can come out of a call only if its sentences, or a marker for it that an earlier reply
left, are in the prompt and are noticed; the reader answers right only where it notices every fact that is needed.

In closed form, for recall p without dilution: a fact that is rewritten d times survives with probability p^d; one that
is read in W/S overlapping windows, independently, with 1 − (1 − p)^(W/S). Two reads of one fact agree as far as
``correlation`` says. Everything follows from hashes of (seed, fact, read), so equal calls have equal replies.

Knows no document, no span and no method. Its time is the event loop's, which a simulated loop passes at once.
"""

from __future__ import annotations

from convmem.model.simulated.behaviour import Behaviour
from convmem.model.simulated.reader import FourCharacters, SimulatedReader
from convmem.model.simulated.reading import DILUTION_TOKENS, Fact, Knowledge

__all__ = ["DILUTION_TOKENS", "Behaviour", "Fact", "FourCharacters", "Knowledge", "SimulatedReader"]
