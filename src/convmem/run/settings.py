"""What a person may ask of a run, whatever the method: limits, seed, patience."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RunSettings(BaseModel):
    """Limits of one run; none of them changes what a method asks, only whether and when it may."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    budget: int | None = Field(default=None, gt=0)
    """Most prompt and completion tokens that the run may use, retries included, replies from the cache excluded.
    Unset: no limit. Where tokens are estimated, so is the room that is kept for each call."""
    deadline: float | None = Field(default=None, gt=0)
    """Seconds from the start after which nothing runs. Reading stops after four fifths of it, so that the last fifth
    is left for answering. Unset: no limit."""
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
