"""What reaches a terminal: the answer on standard output, everything else on standard error.

Knows how to make text from documents and models harmless, and how to word numbers. Knows nothing of runs.
"""

from __future__ import annotations

import errno
import re
import sys

from convmem.core import ConvMemError

_WIDTH = 80
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]{0,4096}(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1, but tab and newline
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks and overrides of direction
    r"\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f]"  # separators, annotations, tags
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAK = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def printable(text: str) -> str:
    """``text`` without anything that moves a cursor, colours, reorders, hides or talks to the terminal.

    Line breaks of any kind become newlines; tabs stay. What can't be shown, as bytes of a file's name, is U+FFFD.
    """
    return _SURROGATE.sub("\ufffd", _HARMFUL.sub("", _BREAK.sub("\n", _ESCAPE.sub("", text))))


def one_line(text: str, limit: int = 0) -> str:
    """``text`` fit for one line, cut at a word to ``limit`` characters (0: whole)."""
    line = " ".join(printable(text).split())
    if not limit or len(line) <= limit:
        return line
    return line[:limit].rsplit(" ", 1)[0] + " …"


class Notes:
    """Standard error, unless ``quiet``: what the person should know beside the answer."""

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console  # here: the import takes longer than showing help

        self.console = Console(stderr=True, quiet=quiet, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.console.width = self.console.width or _WIDTH  # a terminal of no width is shown nothing
        self.console.on_broken_pipe = self._fall_silent  # type: ignore[method-assign]

    @property
    def live(self) -> bool:
        """Whether something that moves can be shown."""
        return self.console.is_terminal and not self.console.is_dumb_terminal and not self.console.quiet

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print a line, whatever it holds; where nothing can be printed, the run goes on without."""
        try:
            self.console.print(printable(text), style=style)
        except OSError:
            self._fall_silent()

    def warn(self, text: str) -> None:
        """Print a warning on a line of its own."""
        self.say(f"Warning: {one_line(text)}", style="yellow")

    def _fall_silent(self) -> None:
        self.console.quiet = True


def put(text: str) -> None:
    """Print ``text`` on standard output, at once, so that a closed pipe is met here.

    Raises ConvMemError where standard output can't be written to.
    """
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "it is closed")
        sys.stdout.write(printable(text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConvMemError(f"Standard output can't be written to: {error.strerror}.") from error


def tokens(number: int) -> str:
    """A number of tokens in three digits: 950, 6.2k, 27M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.9995:
            return f"{number / size:.3g}{unit}"
    return str(number)


def duration(seconds: float) -> str:
    """A time span for a person: 8 s, 3 min 12 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 call``, ``1,234 calls``; ``plural`` where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
