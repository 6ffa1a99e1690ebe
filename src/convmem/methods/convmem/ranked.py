"""ConvMem by ranked reading (METHODS section 2): what evidence ``windows`` does in place of a tree of summaries.

One strategy serves all its switches. Windows are ranked by the question and read in that order: all at once where
nothing limits the run, else in growing parts. An attempt at the answer goes hop by hop: a sub-question whose answer
others need is answered first, its answer is put into theirs, and what the new name points to is read with the name
known. Where an attempt finds nothing, the next one looks further down; where reading is limited, it goes on until an
answer is found. So a budget, a deadline and an early exit cut short what a full reading does, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, product
from math import ceil, sqrt

import numpy as np

from convmem.core import NOT_FOUND, BestAnswer, DeadlinePassed
from convmem.memory.aggregation import Finding, answer_from, combine
from convmem.memory.decomposition import SubQuestion, in_rounds, named
from convmem.memory.passages import read_in
from convmem.memory.ranking import Ranking
from convmem.memory.reading import Issued, RankedReading
from convmem.methods.convmem.answering import Reserve
from convmem.methods.convmem.config import Settled
from convmem.run import Run

FIRST_PART = 8
"""Windows that are read before the first attempt, where reading is limited."""
POINTED = 0.75
"""Windows that are read with a name when that becomes known, in square roots of their number."""
ROOM = 0.9
"""The share of a prompt with evidence that a budget must have room for to ask one more: few are as long as they may."""
FRAME_TOKENS = 100
"""What a prompt that scores a window has besides the window and the question."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at the answer: the sub-questions as they were asked, their findings, and the answer."""

    asked: Sequence[SubQuestion]
    findings: Sequence[Finding]
    final: Finding
    lacking: Sequence[SubQuestion] = ()
    """Sub-questions that could not be asked, since one that they need found no answer."""


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """The answer to a question by ranked reading; without ``ranking``, in the document's order."""

    question: SubQuestion
    reading: RankedReading
    ranking: Ranking | None
    config: Settled
    run: Run
    known: dict[str, Finding] = field(default_factory=dict)
    """The answers to sub-questions, by id, that attempts have found so far."""
    vain: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    """What was asked of which windows, and not found there."""

    async def answer(self, splitting: Awaitable[Sequence[SubQuestion]]) -> Attempt:
        """The last attempt: the first one that found an answer, or else the one that looked at most."""
        await self._rank(self.question)
        parts: Iterator[Sequence[int]] = iter(())
        if not self._limited:
            issued = self.reading.issue(self.reading.beliefs.order(self.question.text), self.question)
            questions, reserve = await splitting, Reserve(self.config.buffer_tokens)
            await self.reading.commit(issued)
            made = await self._attempt(questions, 1, reserve)
        else:
            questions = await splitting
            reserve = Reserve.of(_prompts(questions, self.config), self.config, self.run)
            parts = self._parts(reserve, any(question.needs for question in questions))
            made = await self._until_settled(parts, questions, reserve) or await self._attempt(questions, 1, reserve)
        for number in count(2):
            if made.final.found or made.final.failure or not self._another(number, reserve):
                break
            reserve.renew(self.run)
            if further := self._next(parts):
                await self.reading.commit(further)
            looked = len(self.vain)
            later = await self._attempt(questions, number, reserve)
            if later.final.failure:  # the budget or the deadline has no room for it
                break
            made = later
            if not further and len(self.vain) == looked:  # there is nothing else to look at
                break
        for question in made.lacking:
            self.run.warn(f"What “{question.text}” needs was not found; the whole question was looked for instead.")
        self._say_what_ended(made)
        return made

    def _another(self, number: int, reserve: Reserve) -> bool:
        """Whether there may be an attempt of that number: under a budget, where there is room for one.

        Else as many as are configured, as long as their evidence is shorter than the document.
        """
        if reserve.most is not None:
            return reserve.prompts(self.run) >= ROOM
        return number <= self.config.attempts and number * reserve.capacity <= self.run.size

    @property
    def _limited(self) -> bool:
        """Whether reading may end before all windows are read."""
        return self.config.early_exit or self.run.settings.limited

    async def _until_settled(
        self, parts: Iterator[Sequence[int]], questions: Sequence[SubQuestion], reserve: Reserve
    ) -> Attempt | None:  # fmt: skip
        """The first attempt that finds an answer, made when more windows agree; None where the reading ends before.

        Without a budget, reading goes on during an attempt, and what is then not needed is cancelled.
        """
        issued, agreed = self._next(parts), 0
        while issued:
            await self.reading.commit(issued)
            ahead = self._next(parts) if self.run.settings.budget is None else None
            if self.reading.beliefs.agreed() > agreed and reserve.another(self.run):
                agreed = self.reading.beliefs.agreed()
                made = await self._attempt(questions, 1, reserve)
                if made.final.found:
                    self.reading.cancel(ahead)
                    return made
            issued = ahead or self._next(parts)
        return None

    def _parts(self, reserve: Reserve, hops: bool) -> Iterator[Sequence[int]]:
        """The windows in ranked order, each part as many as all before; under a budget, what it has room for.

        With ``hops``, something is left for what their answers point to.
        """
        order = self.reading.beliefs.order(self.question.text)
        done = 0
        while done < len(order) and not self.reading.stopped:
            room = self._affordable(reserve) - (self._pointed(reserve) if hops else 0)
            if not (part := order[done : min(max(FIRST_PART, 2 * done), done + room)]):
                return
            done += len(part)
            hops = hops and room > len(part)
            yield part

    def _next(self, parts: Iterator[Sequence[int]]) -> Issued | None:
        part = next(parts, None)
        return None if part is None else self.reading.issue(part, self.question)

    def _affordable(self, reserve: Reserve) -> int:
        """How many windows there is room to read."""
        windows = self.reading.windows
        each = self.run.size / len(windows) + FRAME_TOKENS + len(self.question.text) // 4
        return min(len(windows), int(reserve.left(self.run) / each))

    def _pointed(self, reserve: Reserve) -> int:
        """How many windows are read when a name becomes known."""
        return min(ceil(POINTED * sqrt(len(self.reading.windows))), self._affordable(reserve) // 2)

    def _say_what_ended(self, made: Attempt) -> None:
        windows = len(self.reading.windows)
        read = self.run.reads(window.span for window in self.reading.windows)
        if made.final.failure or read == windows or not self._limited:
            return
        end = "deadline" if isinstance(self.reading.stopped, DeadlinePassed) else "budget"
        if made.final.found and not self.reading.stopped:
            end = "answer"
        self.run.warn(f"The {end} ended reading after {read:,} of {windows:,} windows.")

    # -------------------------------------------------------------------------------------------- an attempt

    async def _attempt(self, questions: Sequence[SubQuestion], number: int, reserve: Reserve) -> Attempt:
        """The answer from what is believed by now, hop by hop; a later attempt, counted from 1, looks at more."""
        needed = {each for question in questions for each in question.needs}
        asked: list[SubQuestion] = []
        lacking: list[SubQuestion] = []
        found: dict[str, Finding] = {}
        for group in in_rounds(questions):
            known = {each: (finding.text, finding.node) for each, finding in self.known.items()}
            filled = [named(each, known) for each in group]
            lacking += [each for each, known in zip(group, filled, strict=True) if known is None]
            ready = [each for each in filled if each]
            await asyncio.gather(*(self._point(each, number, reserve) for each in ready))
            asked += ready
            wanted = [each for each in ready if each.id in needed or self.config.final == "sub_answers"]
            to_answer = [each for each in wanted if each.id not in self.known]
            answers = await asyncio.gather(*(self._answer([each], each, number, reserve) for each in to_answer))
            found |= {each.id: answer for each, answer in zip(to_answer, answers, strict=True)}
            self.known.update({each: answer for each, answer in found.items() if answer.found})
        answered = self.known | {each: answer for each, answer in found.items() if each not in self.known}
        findings = [answered[each.id] for each in questions if each.id in answered]
        sought = any(need not in self.known for each in lacking for need in each.needs)
        if sought and reserve.most is not None and reserve.prompts(self.run) > 2 * ROOM:
            final = Finding(self.question.text, NOT_FOUND, False)  # what is lacking is looked for again instead
        else:
            final = await self._final(asked, findings, number, reserve)
        if final.found:
            self.run.emit(BestAnswer(final.text, final.citations))
        return Attempt(asked, findings, final, lacking)

    async def _point(self, question: SubQuestion, number: int, reserve: Reserve) -> None:
        """Rank the windows for a sub-question; where it names an answer, read what that points to."""
        await self._rank(question)
        if question.names and not self.reading.stopped:
            likely = self.reading.beliefs.order(question.text)[: number * self._pointed(reserve)]
            unread = [index for index in likely if not self.reading.seen(index, question)]
            await self.reading.commit(self.reading.issue(unread, question), once=True)

    async def _final(
        self, asked: Sequence[SubQuestion], findings: Sequence[Finding], number: int, reserve: Reserve
    ) -> Finding:  # fmt: skip
        """A from the passages, or from Q and the sub-answers (eq. 7)."""
        if self.config.final == "sub_answers":
            return await combine(self.question.text, findings, self.run, reply_tokens=self.config.answer_tokens)
        last = _last(asked)
        if last and reserve.most is not None:
            answer = await self._answer([last], last, number, reserve, role="direct")
        else:
            answer = await self._answer([self.question, *asked], self.question, number, reserve, role="direct")
            if last and not (answer.found or answer.failure):
                led_to = await self._answer([last], last, number, reserve, role="direct")
                return led_to if led_to.found else answer
        if answer.failure and number == 1:  # else the attempt before is the answer
            findings = findings or [await self._answer([each], each, number, reserve) for each in asked]
            if found := [finding for finding in findings if finding.found]:
                self.run.warn("The first sub-answer is given instead.")
                return found[0]
        return answer

    async def _answer(
        self, wanted: Sequence[SubQuestion], question: SubQuestion, number: int, reserve: Reserve,
        role: str = "sub_answer",
    ) -> Finding:  # fmt: skip
        """The answer to a question from the windows that are likeliest for any of ``wanted``.

        Not from windows that were asked together before, unless all were passed over for that.
        """
        texts, capacity = [each.text for each in wanted], reserve.evidence(number)
        indices = self._evidence(texts, capacity)
        passed: set[int] = set()
        while (question.text, indices) in self.vain and not passed.issuperset(range(len(self.reading.windows))):
            self._doubt(texts, indices)
            passed.update(indices)
            indices = self._evidence(texts, capacity)
        notes = [self.reading.note(index, question.text) for index in indices]
        answer = await answer_from(
            notes, [], question, self.run, role=role, reply_tokens=self.config.answer_tokens, most=reserve.most
        )
        if answer.node is not None:
            read_in(answer.node, self.run)
            if not answer.found:
                self.vain.add((question.text, indices))
                self._doubt(texts, indices)
        return answer

    def _doubt(self, questions: list[str], indices: Iterable[int]) -> None:
        for index, question in product(indices, questions):
            self.reading.beliefs.doubt(index, question)

    def _evidence(self, questions: list[str], capacity: int) -> tuple[int, ...]:
        """The windows that ``capacity`` tokens hold, the likeliest ones and one at least, in the document's order."""
        taken: list[int] = []
        for index in self.reading.beliefs.leading(questions):
            first, last = self.reading.windows[index].tokens
            capacity -= last - first
            if taken and capacity < 0:
                break
            taken.append(index)
        return tuple(sorted(taken))

    async def _rank(self, question: SubQuestion) -> None:
        """Rank the windows for a question, in which the names that answers gave count twice."""
        query = " ".join((question.text, *question.names))
        scores = await self.ranking.scores([query]) if self.ranking else np.zeros(len(self.reading.windows))
        self.reading.beliefs.rank(question.text, scores)


def _last(asked: Sequence[SubQuestion]) -> SubQuestion | None:
    """The sub-question that all others lead to, with their answers in it: its answer is that to the whole."""
    last = asked[-1] if asked else None
    led = {each for question in asked for each in question.needs}
    return last if last and last.names and led == {each.id for each in asked[:-1]} else None


def _prompts(questions: Sequence[SubQuestion], config: Settled) -> int:
    """How many prompts with evidence an attempt has."""
    if config.final == "sub_answers":
        return len(questions)
    return len({each for question in questions for each in question.needs}) + 1
