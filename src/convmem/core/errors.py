"""Everything that can go wrong, by what the one who meets it can do about it.

Messages are one plain sentence that names the cause and the remedy; the command prints them as they are.
"""

from __future__ import annotations


class ConvMemError(Exception):
    """A run failed (exit code 1)."""

    exit_code = 1


class InputError(ConvMemError):
    """The command or its input is wrong (exit code 2)."""

    exit_code = 2


class ModelError(ConvMemError):
    """One try of a call failed. Subclasses say what is worth doing next."""


class Fatal(ModelError):
    """No call to this model can succeed (refused key, unknown model, nothing listening): the run ends."""


class Refused(Fatal):
    """The server refuses this call, and does not say that it is about all: where others are answered, one is lost.

    ``prompt`` is True where it says that it is about this prompt alone.
    """

    def __init__(self, message: str, *, prompt: bool = False) -> None:
        super().__init__(message)
        self.prompt = prompt


class RateLimited(ModelError):
    """The server asks to wait; ``retry_after`` in seconds, None where it did not say how long."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Transient(ModelError):
    """A server error, a dropped connection, an unreadable body: the same call may succeed when made again."""


class TimedOut(ModelError):
    """No byte came within the time limit: again, then with less text."""


class ContextExceeded(ModelError):
    """The call is longer than what the model takes; ``limit`` in tokens for prompt and reply, where known."""

    def __init__(self, message: str, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class Malformed(ConvMemError):
    """A reply came, but not in the form that was asked for."""


class CallFailed(ConvMemError):
    """A call was given up after every retry: what it would have read is missing from the answer."""


class Stopped(ConvMemError):
    """The run may make no further call of this kind; what has been read must do."""


class BudgetExhausted(Stopped):
    """The token budget has no room for the call."""


class DeadlinePassed(Stopped):
    """The time allowed for the run is over."""


def first_of(group: BaseExceptionGroup[BaseException], kind: type[ConvMemError]) -> BaseException:
    """The first error of a task group where all are of ``kind``, else the group: what to raise in its place.

    For an ``except BaseExceptionGroup``: what is raised in an ``except*``, early Pythons 3.11 put into a group again.
    """
    if group.split(kind)[1]:
        return group
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def extra(name: str) -> str:
    """What installs the packages of an optional part, for the sentence of an error."""
    return f"pip install '.[{name}]' in ConvMem's folder"
