"""What a run used. Knows roles, tokens and which call waited for which."""

from __future__ import annotations

from convmem.core import Ledger, Totals, Usage


class Accounts:
    """The ledger, kept while the run goes on."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._depth: list[int] = []

    def issued(self, parents: tuple[int, ...]) -> None:
        """The next call waits for ``parents``."""
        depth = 1 + max((self._depth[parent] for parent in parents), default=0)
        self._depth.append(depth)
        self.ledger.depth = max(self.ledger.depth, depth)

    def replied(self, role: str, usage: Usage) -> None:
        """A model replied."""
        for totals in self._totals(role):
            totals.calls += 1
            totals.prompt_tokens += usage.prompt_tokens
            totals.cached_tokens += usage.cached_tokens
            totals.completion_tokens += usage.completion_tokens

    def cancelled(self, role: str, prompt_tokens: int) -> None:
        """A call was cancelled after it had been sent."""
        for totals in self._totals(role):
            totals.prompt_tokens += prompt_tokens

    def replayed(self, role: str) -> None:
        """The cache had the reply."""
        for totals in self._totals(role):
            totals.cache_hits += 1

    def _totals(self, role: str) -> tuple[Totals, Totals]:
        return self.ledger.total, self.ledger.by_role.setdefault(role, Totals())
