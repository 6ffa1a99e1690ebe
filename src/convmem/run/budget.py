"""A hard limit on tokens: which calls it has room for does not depend on how many run at once.

The rule is that of a run that makes one call after another, in the order of issue: a call is admitted where what all
earlier calls used, its own reservation, and what is set aside for answering fit the budget together. A call that would
fit even if every earlier one used all that it may is admitted at once, one that would not fit if they used nothing more
is refused at once, and only what lies between waits for them.

Knows tokens and the order of issue; knows nothing of prompts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from convmem.core import BudgetExhausted


@dataclass(slots=True)
class _Sum:
    """What calls used, what those still open may use further, and what answering calls used."""

    used: int = 0
    promised: int = 0
    answering: int = 0


@dataclass(slots=True)
class Budget:
    """``limit`` tokens for a run, None for no limit."""

    limit: int | None
    _aside: int = 0
    _kept: int = 0
    _total: _Sum = field(default_factory=_Sum)
    _undecided: deque[Ticket] = field(default_factory=deque)
    _admitted: deque[Ticket] = field(default_factory=deque)
    """In the order of issue, from the first that is open."""
    _again: list[Ticket] = field(default_factory=list)

    def issue(self, *, answering: bool = False) -> Ticket:
        """The next place in the order of issue."""
        ticket = Ticket(self, answering)
        if self.limit is not None:
            self._undecided.append(ticket)
        return ticket

    def set_aside(self, tokens: int) -> None:
        """Keep ``tokens`` for answering calls, which use them up first."""
        self._aside = tokens
        self._settle()

    def keep(self, tokens: int) -> None:
        """Keep ``tokens`` from every call until less is kept."""
        self._kept = tokens
        self._settle()

    def _settle(self) -> None:
        """Decide what can be decided."""
        while self._admitted and self._admitted[0].ended:
            self._admitted.popleft()
        self._again = [ticket for ticket in self._again if not self._decide(ticket, self._before(ticket))]
        while self._undecided:
            ticket = self._undecided[0]
            if not self._decide(ticket, self._total):
                return  # what later calls have room for depends on this one
            self._undecided.popleft()
            if not ticket.ended:
                self._admitted.append(ticket)

    def _before(self, ticket: Ticket) -> _Sum:
        """The sum over the calls issued before an admitted one, and over its own earlier tries."""
        before = _Sum(self._total.used, self._total.promised - ticket.promised, self._total.answering)
        for later in reversed(self._admitted):
            if later is ticket:
                break
            before.used -= later.used
            before.promised -= later.promised
            before.answering -= later.used * later.answering
        return before

    def _decide(self, ticket: Ticket, before: _Sum) -> bool:
        """Whether the call is admitted, refused, or over."""
        assert self.limit is not None
        if ticket.ended:
            return True
        if ticket.decision is None or ticket.decision.done():
            return False
        aside = 0 if ticket.answering else max(0, self._aside - before.answering)
        room = self.limit - self._kept - before.used - aside - ticket.reserved
        if room < 0:
            error = f"The budget of {self.limit:,} tokens has no room for another call; raise it to read more."
            ticket.decision.set_exception(BudgetExhausted(error))
            ticket.end()
            return True
        if before.promised > room:
            return False
        self._total.promised += ticket.reserved * ticket.tries - ticket.promised
        ticket.promised = ticket.reserved * ticket.tries
        ticket.decision.set_result(None)
        return True


@dataclass(slots=True, eq=False)
class Ticket:
    """A call's place in the order of issue.

    Use as a context manager: at its end the call is over, and what it did not use is free.
    """

    budget: Budget
    answering: bool
    reserved: int = 0
    tries: int = 0
    used: int = 0
    promised: int = 0
    ended: bool = False
    decision: asyncio.Future[None] | None = None

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.budget._settle()

    @property
    def limited(self) -> bool:
        """Whether there is a budget at all."""
        return self.budget.limit is not None

    async def admit(self, reserve: int, tries: int) -> None:
        """Wait until there is room for a try of ``reserve`` tokens, one of ``tries`` that the call may need.

        Raises BudgetExhausted where there is none, and the call is over.
        """
        if self.decision:
            self.budget._again.append(self)
        self.decision = asyncio.get_running_loop().create_future()
        self.reserved, self.tries = reserve, tries
        self.budget._settle()
        await self.decision

    def again(self) -> bool:
        """Reserve as much once more, for a second try beside the first; False where that is not sure to fit.

        It doesn't wait, and so may depend on what runs at once.
        """
        limit, total = self.budget.limit, self.budget._total
        if limit is not None:
            aside = 0 if self.answering else max(0, self.budget._aside - total.answering)
            if total.used + total.promised + self.budget._kept + aside + self.reserved > limit:
                return False
            self.promised += self.reserved
            total.promised += self.reserved
        return True

    def charge(self, tokens: int) -> None:
        """Count what a try used, in place of what was reserved for it."""
        total = self.budget._total
        self.used += tokens
        total.used += tokens
        total.answering += tokens * self.answering
        freed = min(self.reserved, self.promised)
        self.promised -= freed
        total.promised -= freed
        self.budget._settle()

    def end(self) -> None:
        """The call uses nothing more."""
        self.budget._total.promised -= self.promised
        self.promised = 0
        self.ended = True
