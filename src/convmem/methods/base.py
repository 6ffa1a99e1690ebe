"""What every method is: a configuration, an estimate of its cost, and `solve`.

A method file holds one published system and reads like its paper's pseudocode. To add one, put a module with a
`Method` subclass into this package: the registry finds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from convmem.core import Answer, Event, InputError, Model, Plan, Tokenizer
from convmem.document import Document
from convmem.model import Cache
from convmem.run import Run, RunSettings

C = TypeVar("C", bound="MethodConfig")


class MethodConfig(BaseModel):
    """Settings of one method; each field is one mechanism or number of its paper."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    temperature: float = 0.7
    """Sampling temperature; 0 is greedy."""
    top_p: float = 0.95
    """Nucleus sampling: the share of probability that tokens are drawn from."""

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """The named preset with ``overrides``. Raises InputError for an unknown preset, field or value."""
        if name not in cls.presets:
            raise InputError(f"There is no preset {name!r}; choose from {', '.join(cls.presets) or 'none'}.")
        return cls.of({**cls.presets[name], **overrides})

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """A configuration from plain values. Raises InputError that names the field and what is wrong."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            if first["type"] == "extra_forbidden":
                raise InputError(f"There is no setting {field!r}; see docs/configuration.md.") from None
            said = first["msg"].removeprefix("Value error, ")
            raise InputError(f"{field}: {said}." if field else said) from None


@dataclass(frozen=True, slots=True)
class Facts:
    """What an estimate may know of the model before any call.

    ``context`` in tokens; ``logprobs`` None where it is not known; ``tokens_per_second`` (prompt, reply); ``slots``
    calls served at once.
    """

    tokenizer: Tokenizer
    context: int | None = None
    logprobs: bool | None = None
    tokens_per_second: tuple[float, float] | None = None
    slots: int = 1


class Method(ABC, Generic[C]):
    """A system that answers questions over documents longer than its model's context."""

    name: ClassVar[str]
    summary: ClassVar[str]
    Config: ClassVar[type[MethodConfig]]

    def __init__(self, config: C) -> None:
        self.config = config

    @abstractmethod
    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        """Answer ``question``; every call goes through ``run``.

        Raises Fatal where the model can't be had, and ConvMemError where nothing could be read.
        """

    async def answer(
        self,
        document: Document,
        question: str,
        *,
        model: Model | Mapping[str, Model],
        settings: RunSettings | None = None,
        cache: Cache | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answer:
        """Answer ``question`` over ``document`` in a run of its own.

        ``model`` may be one for each role, with the default under ``""``. Without ``cache``, the user's cache is used.
        Cancelling the task leaves no call pending. Raises ConvMemError, whose message is one sentence.
        """
        raise NotImplementedError

    @abstractmethod
    def plan(self, document: Document, facts: Facts) -> Plan:
        """Estimate what ``solve`` would cost. Makes no model call."""
