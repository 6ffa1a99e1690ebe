"""How much one request may ask of the server, whoever sends it. What one key may use in all is ``keys.Quota``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes or characters, times in seconds."""

    body_bytes: int = 64 << 20
    """A request's body."""
    requests: int = 1_000
    """Requests of one tenant that are open at once, followed streams among them."""
    held_bytes: int = 256 << 20
    """Bodies of one tenant's open requests together: they are in memory until they are answered."""
    body_seconds: float = 30.0
    """The longest silence while a body is sent."""
    send_seconds: float = 60.0
    """The longest wait for a client that does not take its answer."""
    parse_bytes: int = 2 << 30
    """Memory of the process that parses a file."""
    parse_seconds: int = 60
    """Time of that process, of the clock and of the CPU."""
    files: int = 100
    """Files of one request."""
    text_bytes: int = 256 << 20
    """What the parsed files of one request may give back together, as JSON."""
    stored_characters: int = 1_000_000_000
    """Text of all documents of one tenant."""
    calls: int = 100_000
    """Calls that a question may be expected to take, and windows that it may read: each is held in memory."""
    short_tokens: int = 8_000
    """A chat of at most so many tokens, as estimated, is passed to the model as it is."""
    grace_seconds: float = 10.0
    """How long a server that is told to stop lets runs finish; what has not finished then goes on when it is started
    again."""
    keep_seconds: float = 30 * 86_400.0
    """How long what came in chat messages is kept after its last use."""
