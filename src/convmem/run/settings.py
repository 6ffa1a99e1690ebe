"""What a person may ask of a run, whatever the method: limits, seed, patience."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

_THOUSANDS = {"": 1, "k": 1_000, "m": 1_000_000}
_TOKENS = re.compile(r"\s*(\d[\d,_]*(?:\.\d+)?)\s*([km]?)\s*", re.IGNORECASE)
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|)\s*", re.IGNORECASE)
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600}


def _tokens(value: Any) -> Any:
    """A number of tokens as people write it: 50000, 50k, 1.5M."""
    found = _TOKENS.fullmatch(value) if isinstance(value, str) else None
    number = float(_plain(found[1])) * _THOUSANDS[found[2].lower()] if found else inf
    if isinstance(value, str) and number == inf:
        raise ValueError(f"'{value}' is no number of tokens; write 50000, 50k, or 5% for a share of the document's")
    return round(number) if found else value


def _seconds(value: Any) -> Any:
    """A time as people write it: 90, 30s, 2m, 1h."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if isinstance(value, str) and not found:
        raise ValueError(f"'{value}' is no time; write 90, 30s, 2m or 1h")
    return float(found[1]) * _SECONDS[found[2].lower()] if found else value


def _plain(number: str) -> str:
    return number.replace(",", "").replace("_", "")


class RunSettings(BaseModel):
    """Limits of one run; none of them changes what a method asks, only whether and when it may."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    budget: Annotated[int | None, BeforeValidator(_tokens)] = Field(default=None, gt=0)
    """Most prompt and completion tokens that the run may use, retries included, replies from the cache excluded: 50000,
    `50k`, or `5%` of the document's tokens. Unset: no limit. Where tokens are estimated, so is the room that is kept
    for each call."""
    budget_share: float | None = Field(default=None, gt=0, le=1_000_000)
    """The budget as a share of the document's tokens, as a budget of `5%` sets it to 0.05."""
    deadline: Annotated[float | None, BeforeValidator(_seconds)] = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds from the start (90, `30s`, `2m`) after which nothing runs. Reading stops after four fifths of it, so that
    the last fifth is left for answering. Unset: no limit."""
    concurrency: int | None = Field(default=None, gt=0)
    """Calls in flight at once, for each model. Unset: as many as the model serves at once."""
    context: int | None = Field(default=None, gt=0)
    """Tokens that a prompt and its reply may have together. Unset: what the model says."""
    seed: int = 0
    """Seed of every sampled reply; equal runs with equal seeds make equal calls."""
    retries: int = Field(default=3, ge=0)
    """Further tries of a call after each kind of failure: rate limit, server error, time limit, malformed reply."""
    hedge: float | None = Field(default=None, ge=1, allow_inf_nan=False)
    """A call that takes so many times as long as nine in ten of its siblings (answered calls of its role and layer) did
    is sent a second time: the first reply counts, the other call is cancelled, and both cost. Unset: never."""
    verify: bool = False
    """Every citation of the answer is looked for in its source, and every claim is checked against what it cites."""
    strict: bool = False
    """As `verify`, and the answer is only what its sources support; warnings say what was left out."""
    verifier: str = "model"
    """Who judges whether passages support a claim: `model` (the run's, or the one for role `verify`), `nli:PATH` (an
    NLI cross-encoder in ONNX format, from a folder or by its name on the Hugging Face hub), or `quotation` (only what
    stands there word for word)."""
    embeddings: str | None = None
    """What embeds texts, for `rank=hybrid`, `dedupe=embedding` and lookups in an index: an endpoint
    (`http://host:port/v1#name`), a folder or a zip file with an encoder, or the name of an installed package that has
    one. Its tokens count against no budget. Unset: texts are ranked by their words."""
    namespace: str = ""
    """Whose cache it is (a tenant on a server); replies are never shared between namespaces."""

    @property
    def limited(self) -> bool:
        """Whether a budget or a deadline may end reading before all is read."""
        return not (self.budget is None and self.budget_share is None and self.deadline is None)

    @model_validator(mode="before")
    @classmethod
    def _share(cls, values: Any) -> Any:
        """A budget in percent is one of the document, whose length is not known yet."""
        budget = values.get("budget") if isinstance(values, Mapping) else None
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", budget) if isinstance(budget, str) else None
        return {**values, "budget": None, "budget_share": float(found[1]) / 100} if found else values

    def of(self, tokens: int) -> Self:
        """These settings for a document of ``tokens`` tokens: a share is a number now, and the lower one counts."""
        if self.budget_share is None:
            return self
        share = max(1, round(self.budget_share * tokens))
        return self.model_copy(update={"budget": share if self.budget is None else min(share, self.budget)})
