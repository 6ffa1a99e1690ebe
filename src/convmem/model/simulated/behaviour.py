"""How a simulated reader behaves: its parameters, each with what it means. Knows no call and no fact."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from convmem.core import InputError


class Behaviour(BaseModel):
    """How the reader behaves; probabilities are of one read."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    recall: float = Field(0.9, ge=0, le=1)
    """Probability that a fact whose sentences are in a prompt is noticed."""
    survival: float | None = Field(None, ge=0, le=1)
    """The same for a fact that an earlier reply stated, such as one in a memory that is rewritten. Unset: `recall`."""
    dilution: float = Field(0.5, ge=0)
    """How recall falls with the length of the prompt: both are multiplied by exp(−dilution · tokens / 100,000)."""
    correlation: float = Field(0.0, ge=0, le=1)
    """Correlation between noticing one fact in two reads."""
    noise: float = Field(0.05, ge=0, le=1)
    """Probability that a read finds something relevant that is not."""
    foresight: float = Field(0.5, ge=0, le=1)
    """Probability that a later hop's fact is recognised in a read in which its bridge entity is not known yet."""
    caution: float = Field(0.8, ge=0, le=1)
    """Probability that what may be needed, a later hop's fact that is not recognised or something of its kind, is kept
    undecided where a method has a place for it."""
    hasty: float = Field(0.01, ge=0, le=1)
    """Probability that one read gives up something that is undecided and still may be needed."""
    unfaithful: float = Field(0.0, ge=0, le=1)
    """Probability that the first note on a fact says something else than the text."""
    false_acceptance: float = Field(0.05, ge=0, le=1)
    """Probability that a claim which passages don't support is verified."""
    false_rejection: float = Field(0.06, ge=0, le=1)
    """Probability that a claim which passages support is not."""
    blind: float = Field(0.7, ge=0, le=1)
    """By what recall is multiplied where a prompt holds no question."""
    context: int = Field(32_768, ge=1)
    """Tokens that a prompt and its reply may have together."""
    logprobs: bool = True
    """Whether replies carry log-probabilities where a call asks for them."""
    note: int = Field(40, ge=1)
    """Tokens of a note on one fact."""
    malformed: float = Field(0.0, ge=0, le=1)
    """Probability that a reply stops halfway."""
    failed: float = Field(0.0, ge=0, le=1)
    """Probability that a try gives a server error instead of a reply."""
    prefill: float = Field(4_000.0, gt=0)
    """Prompt tokens read in a second, in each slot."""
    decode: float = Field(50.0, gt=0)
    """Tokens written in a second, in each slot."""
    slots: int = Field(16, ge=1)
    """Calls served at once; others wait in the order in which they come."""
    prefix_cache: bool = False
    """Whether a prompt is read only from where it differs from earlier ones that are kept, as vLLM does: as many as
    there are slots, those used last, and of several that begin alike one."""
    seed: int = 0
    """What else a reply depends on: another seed is another reader of the same kind."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``recall=0.9,noise=0.05,…``, all of it optional. Raises InputError that names the parameter."""
        values = dict(part.partition("=")[::2] for part in text.split(",") if part.strip())
        try:
            return cls.model_validate({name.strip(): value.strip() for name, value in values.items()})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            if first["type"] == "extra_forbidden":
                known = ", ".join(cls.model_fields)
                raise InputError(f"The simulated reader has no parameter {name!r}; it has {known}.") from None
            raise InputError(f"The simulated reader's {name}: {first['msg']}.") from None

    def __str__(self) -> str:
        changed = {"recall": self.recall, **self.model_dump(exclude_defaults=True)}
        return ",".join(f"{name}={value:g}" for name, value in changed.items())
