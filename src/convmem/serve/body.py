"""A request's JSON body as the server takes it: text that can be written again, nesting that can be followed.

Knows JSON values; knows nothing of what they mean.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, model_validator

from convmem.document.encoding import replace_surrogates

_DEEPEST = 100


class Body(BaseModel):
    """What a request's body is read as. Halves of characters are replaced; what is nested too deeply is refused."""

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, values: Any) -> Any:
        return _readable(values, _DEEPEST)


def _readable(value: Any, levels: int) -> Any:
    match value:
        case str():
            return replace_surrogates(value)
        case dict() | list() if not levels:
            raise ValueError(f"values may be nested {_DEEPEST} deep")
        case dict():
            return {replace_surrogates(name): _readable(each, levels - 1) for name, each in value.items()}
        case list():
            return [_readable(each, levels - 1) for each in value]
        case _:
            return value
