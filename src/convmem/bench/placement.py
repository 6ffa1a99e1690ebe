"""Where in a context the supporting paragraphs stand: natural, early, late, at window edges, in windows, or far apart.

Knows lengths in tokens and numbers; knows no text. Windows here follow one another without overlap (S = W), as a
sequential reader's chunks do.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Literal, NamedTuple, cast, get_args

from convmem.core import InputError

Where = Literal["natural", "early", "late", "edge", "middle", "gap"]
Order = Literal["any", "forward", "backward"]

EXTREME = 10
"""``early`` and ``late`` are the first and last tenth of the documents."""

_SPARE = 16
"""Fillers that stay behind the last supporting paragraph at least: to place it exactly takes a choice of sizes."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A rule for the supporting paragraphs of a context.

    ``edge``: the boundary of two windows of ``window`` tokens cuts each paragraph's first supporting unit; ``middle``:
    that unit is in the middle of a window; ``gap``: from each paragraph to the next there are ``gap`` windows.
    ``order``: by hop (the bridge before what it leads to), backward (after it), or as the seed has it.
    """

    where: Where = "natural"
    order: Order = "any"
    window: int = 5_000
    gap: int = 1

    def __str__(self) -> str:
        """As `parse` reads it, with what is not usual."""
        usual = Placement()
        changed = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "where"}
        settings = [f"{name}={value}" for name, value in changed.items() if value != getattr(usual, name)]
        return self.where + (":" + ",".join(settings) if settings else "")

    @classmethod
    def parse(cls, text: str) -> Placement:
        """From ``where[:key=value,…]``, as in ``gap:gap=32,order=backward``. Raises InputError."""
        where, _, rest = text.partition(":")
        values = dict(part.partition("=")[::2] for part in rest.split(",") if part)
        known = {field.name for field in fields(cls)} - {"where"}
        order = values.pop("order", "any")
        numbers = {key: int(value) for key, value in values.items() if value.isdecimal() and int(value) > 0}
        if where not in get_args(Where) or order not in get_args(Order) or numbers.keys() != values.keys() & known:
            raise InputError(
                f"The placement {text!r} is not understood: give one of {', '.join(get_args(Where))}, and after a "
                f"colon order={'|'.join(get_args(Order))}, window=TOKENS or gap=WINDOWS, separated by commas."
            )
        if numbers.keys() != values.keys():
            raise InputError(f"The placement {text!r} has an unknown setting; window, gap and order can be set.")
        return cls(cast("Where", where), cast("Order", order), **numbers)


class Sizes(NamedTuple):
    """Tokens of a supporting document without its heading, of its part before the unit that is placed, and of that."""

    document: int
    before: int
    unit: int


def arrange(
    supports: Mapping[int, Sizes],
    fillers: Mapping[int, int],
    placement: Placement,
    rng: Random,
    heading: Callable[[int], int],
) -> list[int]:
    """All keys in the order of the context.

    ``supports`` come by hop; ``fillers`` (key: tokens without heading) already shuffled; ``heading`` gives the tokens
    of the heading of the document at a position from 1. Raises InputError where the context is too short.
    """
    keys = list(supports)
    if placement.order == "any":
        rng.shuffle(keys)
    elif placement.order == "backward":
        keys.reverse()
    if placement.where in ("natural", "early", "late"):
        return _by_number(keys, list(fillers), placement.where, rng)
    usual = sum(fillers.values()) // max(1, len(fillers)) + heading(1)
    total = sum(size.document for size in supports.values()) + usual * max(0, len(fillers) - _SPARE)
    targets = _targets([supports[key] for key in keys], total, placement, rng)
    order: list[int] = []
    rest = dict(fillers)
    at = 0

    def put(key: int, tokens: int) -> None:
        nonlocal at
        order.append(key)
        at += heading(len(order)) + tokens

    for key, target in zip(keys, targets, strict=True):
        for filler, tokens in list(rest.items()):
            if target - at < 2 * usual:
                break
            if target - at - tokens >= usual:
                put(filler, rest.pop(filler))
        for filler in _closest(rest, target - at, heading(len(order) + 1)):
            put(filler, rest.pop(filler))
        put(key, supports[key].document)
    return [*order, *rest]


def _by_number(keys: Sequence[int], fillers: list[int], where: Where, rng: Random) -> list[int]:
    total = len(keys) + len(fillers)
    share = total if where == "natural" else max(len(keys), total // EXTREME)
    first = total - share if where == "late" else 0
    order = list(fillers)
    for key, place in zip(keys, sorted(rng.sample(range(first, first + share), len(keys))), strict=True):
        order.insert(place, key)
    return order


def _targets(sizes: Sequence[Sizes], total: int, placement: Placement, rng: Random) -> list[int]:
    """The token at which the text after each heading should start, ascending; all of it within ``total``."""
    window = placement.window
    if placement.where == "gap":
        reach = (len(sizes) - 1) * placement.gap * window
        room = total - reach - max(size.document for size in sizes)
        if room < 0:
            raise InputError(
                f"Supporting paragraphs {placement.gap} windows of {window:,} tokens apart need more than {reach:,} "
                f"tokens, and the context has room for {total:,}: use more documents, a smaller gap or smaller windows."
            )
        first = rng.randint(0, room)
        return [first + k * placement.gap * window for k in range(len(sizes))]
    half = window // 2 if placement.where == "middle" else 0
    centres = range(half or window, total - half, window)
    if len(centres) < len(sizes):
        raise InputError(
            f"The context has {len(centres)} places at the {placement.where} of windows of {window:,} tokens, and "
            f"{len(sizes)} supporting paragraphs: use more documents or smaller windows."
        )
    chosen = sorted(rng.sample(centres, len(sizes)))
    return [centre - size.before - size.unit // 2 for centre, size in zip(chosen, sizes, strict=True)]


def _closest(fillers: Mapping[int, int], tokens: int, heading: int) -> tuple[int, ...]:
    """The none, one or two fillers that, with their headings and the next one's, come closest to ``tokens``."""
    by_size = sorted(fillers, key=lambda key: fillers[key])
    sizes = [fillers[key] + heading for key in by_size]
    missing = tokens - heading
    best: tuple[int, tuple[int, ...]] = (abs(missing), ())
    for i, size in enumerate(sizes):
        best = min(best, (abs(missing - size), (i,)))
        j = bisect.bisect_left(sizes, missing - size, lo=i + 1)
        best = min([best, *((abs(missing - size - sizes[k]), (i, k)) for k in (j - 1, j) if i < k < len(sizes))])
    return tuple(by_size[i] for i in best[1])
