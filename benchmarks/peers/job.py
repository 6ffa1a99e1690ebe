"""What a peer is given: one question over one text, and where to ask a model. Plain data; knows no library."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """``url`` ends in ``/v1`` and wants no key. ``window``: tokens that a prompt and its reply may have together.

    ``characters_per_token`` is what the text has on average by the endpoint's own counting: every peer measures texts
    with it, so that their windows are equally long and none needs a tokenizer that must be downloaded.
    """

    peer: str
    text: str
    question: str
    url: str
    model: str
    window: int
    reply_tokens: int
    characters_per_token: float

    def tokens(self, text: str) -> int:
        """About how many tokens ``text`` has; unbiased, so that the sum over its words is about right too."""
        return round(len(text) / self.characters_per_token)

    def json(self) -> str:
        return json.dumps(asdict(self))
