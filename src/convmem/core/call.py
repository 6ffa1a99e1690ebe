"""One request to a language model and what came back: plain data that any model can serve."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Finish = Literal["stop", "length", "other"]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the reply is drawn.

    ``max_tokens`` bounds the reply; ``top_logprobs`` asks for that many alternatives' log-probabilities at each token
    of the reply (0: none).
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_logprobs: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A request. Equal calls to equal models may be answered from the cache.

    ``role`` is the prompt's purpose (the template's name), ``channel`` the sub-question's id. ``sample`` tells repeated
    draws of one prompt apart, ``attempt`` the tries after a malformed reply.
    """

    role: str
    messages: tuple[Message, ...]
    sampling: Sampling
    schema: Mapping[str, Any] | None = None
    channel: str = ""
    seed: int = 0
    sample: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; ``cached_tokens`` is the part of the prompt that the server had computed before."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The log-probabilities at one token of a reply: the token drawn, and the likeliest alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply. ``text`` is without the model's reasoning, which ``reasoning`` keeps.

    ``usage`` is None where the server gave none. ``seconds`` is the time from sending to the last byte.
    """

    text: str
    finish: Finish = "stop"
    usage: Usage | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()
    reasoning: str = ""
    seconds: float = 0.0


class Tokenizer(Hashable, Protocol):
    """Counts tokens and says where they start. Equal ones count alike.

    ``identity`` names the vocabulary; ``exact`` is False for an estimate; ``remote`` is True where counting asks a
    server, so that callers in an event loop count in a thread.
    """

    @property
    def identity(self) -> str: ...
    @property
    def exact(self) -> bool: ...
    @property
    def remote(self) -> bool: ...

    def count(self, text: str) -> int:
        """The number of tokens in ``text``."""
        ...

    def offsets(self, text: str) -> NDArray[np.uint32]:
        """The character at which each token starts, shape (tokens,), not decreasing, the first 0; empty for no text.

        A token that begins inside a character has that character's offset.
        """
        ...


class Model(Protocol):
    """A language model, known only by what it replies.

    ``identity`` says which weights answer (a hash, or the configured name; never a URL). ``context`` is the most tokens
    that prompt and reply may have together, None where it could not be learned. ``slots`` is how many calls it serves
    at once. ``logprobs`` is whether replies carry log-probabilities, None where that is not known before asking.
    ``tokens_per_second`` is (prompt, reply) where the speed is known, for estimates of time. ``tokenizer`` counts as
    the model does, None where it offers no way to.
    ``identity``, ``context``, ``slots``, ``logprobs`` and ``tokenizer`` are settled by ``prepare``.
    """

    @property
    def identity(self) -> str: ...
    @property
    def context(self) -> int | None: ...
    @property
    def slots(self) -> int: ...
    @property
    def logprobs(self) -> bool | None: ...
    @property
    def tokens_per_second(self) -> tuple[float, float] | None: ...
    @property
    def tokenizer(self) -> Tokenizer | None: ...

    async def prepare(self) -> None:
        """Connect, load, and discover what the properties say; makes no model call. Idempotent.

        Raises Fatal where the model can't be had.
        """
        ...

    async def complete(self, call: Call) -> Completion:
        """Answer one call, with one try.

        Raises Fatal, RateLimited, Transient, TimedOut or ContextExceeded.
        """
        ...

    async def close(self) -> None:
        """Release connections and memory; the model can't be used afterwards."""
        ...
