"""What ConvMem would cost on a document: the arithmetic of METHODS section 1 and of ranked reading; makes no call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from convmem import prompts
from convmem.core import LayerPlan, Plan, Span
from convmem.document import Document, Windows, stride_starts
from convmem.memory.calibration import calibrated
from convmem.memory.convolution import Layer
from convmem.memory.reading import FEW, SHARE
from convmem.methods.base import Facts
from convmem.methods.convmem.answering import ATTEMPTS, worth_scoring
from convmem.methods.convmem.config import PROMPT_TOKENS, Config, Settled
from convmem.methods.convmem.ranked import FIRST_PART, POINTED
from convmem.methods.convmem.windows import slide
from convmem.run import RunSettings
from convmem.run.gate import ESTIMATE_MARGIN

SUMMARY_TOKENS, SUMMARY_SHARE = 320, 0.04
"""h, what a window's summary is taken to have at most, and of the window's length, after the depths that the paper
reports for windows of 8,000 tokens (section B.2)."""
QUOTED_TOKENS = 60
"""h where it is quotes."""
RELEVANT_SHARE = 0.25
"""The share of windows that are taken to pass the filter."""
WIDENED = 1.5
"""The length of a second view, in windows."""
YES_SHARE = 0.05
"""The share of windows without evidence that are taken to be scored as if they had some."""
SUB_QUESTIONS = 3
"""C, where nothing is known of the model's earlier questions."""
QUESTION_TOKENS = 30
DECOMPOSITION_TOKENS = 80
RELEVANCE_TOKENS = 8
FORM_TOKENS = 15
"""What the reply of a joint kernel has for each sub-question besides its notes."""
ANSWER_TOKENS = 40


@dataclass(frozen=True, slots=True)
class Step:
    """Calls that are made at once: how many, and the tokens of all their prompts and replies."""

    calls: int
    prompt: int
    reply: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.reply

    def times(self, number: int) -> Step:
        """So many of it at once."""
        return Step(number * self.calls, number * self.prompt, number * self.reply)

    def scaled(self, share: float, *, least: int = 0) -> Step:
        """A share of it."""
        return Step(max(least, int(share * self.calls)), int(share * self.prompt), int(share * self.reply))

    def seconds(self, facts: Facts) -> float:
        """How long it takes where the model's speed is known."""
        assert facts.tokens_per_second
        read, write = facts.tokens_per_second
        rounds = max(1.0, self.calls / facts.slots) / max(self.calls, 1)
        return rounds * (self.prompt / read + self.reply / write)


@dataclass(frozen=True, slots=True)
class Steps:
    """A run: what comes before reading, the layers, what follows; and ``beside`` reading what nothing waits for."""

    before: Sequence[Step]
    layers: Sequence[Step]
    after: Sequence[Step]
    beside: Sequence[Step] = ()

    @property
    def every(self) -> Sequence[Step]:
        return (*self.before, *self.beside, *self.layers, *self.after)

    @property
    def tokens(self) -> int:
        return sum(step.tokens for step in self.every)

    def within(self, budget: int) -> Steps:
        """What of it a budget has room for: less is read, and where that isn't enough, answers are made from less."""
        reading = sum(step.tokens for step in self.layers)
        others = min(self.tokens - reading, budget // 2)
        share, rest = (budget - others) / max(reading, 1), others / max(self.tokens - reading, 1)
        return Steps(
            [step.scaled(rest, least=1) for step in self.before],
            [cut for step in self.layers if (cut := step.scaled(min(share, 1.0))).calls],
            [step.scaled(rest, least=1) for step in self.after],
            [step.scaled(rest, least=1) for step in self.beside],
        )

    def in_time(self, deadline: float, facts: Facts) -> Steps:
        """What of it there is time for in ``deadline`` seconds: less is read."""
        reading = sum(step.seconds(facts) for step in self.layers)
        left = deadline - sum(step.seconds(facts) for step in (*self.before, *self.after))
        share = min(1.0, max(0.0, left) / max(reading, 1e-9))
        return Steps(
            self.before, [cut for step in self.layers if (cut := step.scaled(share)).calls], self.after, self.beside
        )


def estimate(config: Config, document: Document, facts: Facts, question: str) -> Plan:
    """The calls and tokens of a run; what they rest on is in the plan's ``assumptions``."""
    settled = config.settled(
        logprobs=bool(facts.logprobs), context=facts.context, calibration=calibrated(facts.identity)
    )
    tokens = document.count(Span(0, document.size), facts.tokenizer)
    assumptions = [] if facts.tokenizer.exact else ["Tokens are estimated, not counted."]
    if config.kernel is None and facts.logprobs is None:
        assumptions.append("The model is taken to give no log-probabilities.")
    lengths, limits = Lengths(facts, question), facts.limits.of(tokens)
    windows: Windows | None = None
    channels = 1
    if tokens <= settled.one_call_tokens and _has_room(tokens + PROMPT_TOKENS, settled, facts, lengths, limits):
        assumptions.append("The document is read in one call.")
        steps = Steps([], [Step(1, tokens + lengths.of("direct"), ANSWER_TOKENS)], [])
    else:
        windows = slide(document, facts.tokenizer, settled)
        channels, hops = split(settled, facts, assumptions)
        if settled.evidence == "windows":
            steps = ranked(settled, windows, tokens, channels, hops, lengths, limits, assumptions)
        else:
            steps = tree(settled, windows, tokens, channels, hops, lengths, assumptions)
    budget = limits.budget
    if budget is not None and steps.tokens > budget:
        steps = steps.within(budget)
        assumptions.append("The budget is taken to be spent; reading ends earlier where an answer is found.")
    if limits.deadline is not None and facts.tokens_per_second:
        steps = steps.in_time(limits.deadline, facts)
        assumptions.append("Reading is taken to end where the deadline leaves time for answers alone.")
    chain = [*steps.before, *steps.layers, *steps.after]
    seconds = round(sum(step.seconds(facts) for step in chain), 1) if facts.tokens_per_second else None
    if seconds is not None and limits.deadline is not None:
        seconds = min(seconds, limits.deadline)
    return Plan(
        tokens=tokens,
        windows=1 if windows is None else len(windows),
        channels=channels,
        layers=tuple(LayerPlan(step.calls, step.prompt) for step in steps.layers),
        calls=sum(step.calls for step in steps.every),
        prompt_tokens=sum(step.prompt for step in steps.every),
        completion_tokens=sum(step.reply for step in steps.every),
        depth=len(chain) + settled.waits,
        seconds=seconds,
        assumptions=tuple(assumptions),
    )


def _has_room(prompt: int, settled: Settled, facts: Facts, lengths: Lengths, limits: RunSettings) -> bool:
    """Whether context and budget have room for a call with so long a prompt."""
    if facts.context is not None and prompt > facts.context:
        return False
    return limits.budget is None or lengths.reserved(prompt) + settled.answer_tokens <= limits.budget


class Lengths:
    """The tokens that prompts have besides their texts, and those of replies where they are known of earlier calls."""

    def __init__(self, facts: Facts, question: str) -> None:
        self._count = facts.tokenizer.count
        self._replies, self._exact = facts.replies, facts.tokenizer.exact
        self.asked = self._count(question) if question else QUESTION_TOKENS

    def of(self, name: str) -> int:
        """What the prompt of that name has, with a question."""
        template = prompts.load(name)
        return self._count(template.system + template.user) + self.asked

    def reply(self, name: str, assumed: float) -> float:
        """What the reply to that prompt has; ``assumed`` where nothing is known."""
        return self._replies.get(name, assumed)

    def one(self, name: str, text: int, assumed: int = ANSWER_TOKENS) -> Step:
        """A call by the prompt of that name, with ``text`` tokens in it besides the question."""
        return Step(1, text + self.of(name), round(self.reply(name, assumed)))

    def reserved(self, prompt: int) -> int:
        """What is kept of a budget for a prompt of so many tokens."""
        return prompt if self._exact else round(prompt * (1 + ESTIMATE_MARGIN))

    def known(self, name: str) -> bool:
        """Whether earlier replies to that prompt are known of."""
        return name in self._replies


def split(settled: Settled, facts: Facts, assumptions: list[str]) -> tuple[int, int]:
    """How many sub-questions are taken to come of the question, and how many of these to need another one's answer."""
    if settled.decompose == "off":
        return 1, 0

    def usual(what: str, assumed: int) -> tuple[int, str]:
        known = facts.usual.get(what)
        return (assumed, "") if known is None else (round(known), ", as with this model's earlier questions")

    channels, known = usual("sub_questions", SUB_QUESTIONS)
    if settled.expected_channels:
        channels, known = settled.expected_channels, ""
    channels = min(channels, settled.c_max)
    assumptions.append(f"Sub-questions: {channels}{known}.")
    if settled.hops != "rounds":
        return channels, 0
    hops, known = usual("hops", channels // 2)
    hops = min(hops, channels - 1)
    assumptions.append(f"Sub-questions that need the answer to another one: {hops}{known}.")
    return channels, hops


def ranked(
    settled: Settled, windows: Windows, tokens: int, channels: int, hops: int, lengths: Lengths, limits: RunSettings,
    assumptions: list[str],
) -> Steps:  # fmt: skip
    """Ranked reading: windows once, some again, and sub-questions that lead to others; one attempt at an answer.

    Where the reading may end early, it is taken to end with its first part.
    """
    every = len(windows)
    each, frame = sum(last - first for first, last in (w.tokens for w in windows)) / every, lengths.of("score")

    def scored(once: int, again: int = 0) -> Step:
        return Step(once + again, round(once * each + again * WIDENED * each + (once + again) * frame), once + again)

    ends = settled.early_exit or limits.limited
    count = min(every, FIRST_PART) if ends and settled.views > 1 else every
    again = second_views(settled, every, count) if settled.views > 1 else 0
    reading, pointed = scored(count, again), min(every, ceil(POINTED * sqrt(every)))
    evidence = min(max(settled.buffer_tokens - round(each / 2), round(each)), tokens)  # whole windows, one at least
    sub_answer, direct = lengths.one("sub_answer", evidence), lengths.one("direct", evidence)
    before, share = decomposing(settled, lengths), 1.0
    if limits.budget is not None:
        answers = hops + 1 if settled.final == "passages" else channels
        left = limits.budget - sum(step.tokens for step in before)
        room, share = shared(left, tokens, answers, settled, lengths)
        reading = reading.scaled(min(1.0, room / reading.tokens))
        pointed = min(pointed, int((room - reading.tokens) / (each + frame)) // 2)
        sub_answer, direct = sub_answer.scaled(share, least=1), direct.scaled(share, least=1)
    after = [sub_answer, *([scored(pointed)] if pointed else [])] * hops
    if settled.final == "sub_answers":
        after += [sub_answer] * (channels - hops)
        after.append(combining(channels, lengths))
    else:
        after.append(direct)
    if again and reading.calls:
        assumptions.append(f"A second look is taken to be worth while at {again:,} windows.")
    end = f", with {min(count, reading.calls):,} of {every:,} windows scored" if count < every else ""
    assumptions.append(f"The first attempt at an answer is taken to find one{end}.")
    if limits.budget is not None and share * (PROMPT_TOKENS + settled.memory_tokens) < PROMPT_TOKENS:
        assumptions.append(f"The budget of {limits.budget:,} tokens is too small to read anything and answer.")
    elif limits.budget is not None:
        assumptions.append(f"Where it finds none, more is used, up to the budget of {limits.budget:,} tokens.")
    return Steps([], [reading] if reading.calls else [], after, before)


def shared(budget: int, size: int, answers: int, settled: Settled, lengths: Lengths) -> tuple[int, float]:
    """The tokens of a budget that are left for reading, and the share of usual evidence that prompts have room for.

    After what ranked reading keeps for so many prompts with evidence, in a document of ``size`` tokens.
    """
    prompt = lengths.reserved(PROMPT_TOKENS + settled.memory_tokens)
    once = answers * (prompt + settled.answer_tokens)
    aside = min(max(once, budget // 2), ATTEMPTS * once)
    if not worth_scoring(budget - aside, size, settled):
        aside = budget
    share = (min(once, aside) / answers - settled.answer_tokens) / prompt
    return max(0, budget - aside), min(1.0, max(0.0, share))


def second_views(settled: Settled, windows: int, read: int) -> int:
    """How many of the first ``read`` windows are taken to be worth a second view.

    Those where ranking or model say that evidence may be. Those that rank high come first, and get no more than the
    share of what is read by then.
    """
    prior = settled.calibration.prior(np.arange(1.0, windows + 1))[:read]
    denied = prior + settled.calibration.said(np.array(0.05))
    doubtful = int(np.sum(denied >= np.log(settled.view_worth / (1 - settled.view_worth))))
    return min(ceil(FEW + SHARE * read), ceil(FEW + SHARE * doubtful) + round(YES_SHARE * read))


def tree(
    settled: Settled, windows: Windows, tokens: int, channels: int, hops: int, lengths: Lengths, assumptions: list[str]
) -> Steps:  # fmt: skip
    """Every window for every channel, notes merged layer by layer, sub-answers and the answer.

    A sub-question that needs another one's answer has a round and windows of its own, those that the answer points to.
    """
    at_once = channels - hops
    asks, h = _layer0(settled, at_once, lengths, assumptions)

    def reading(count: int, tokens: float) -> Step:
        return Step(
            round(sum(share for _, share, _ in asks) * count),
            round(sum(share * (tokens + count * lengths.of(role)) for role, share, _ in asks)),
            round(sum(share * count * reply for _, share, reply in asks)),
        )

    read = sum(last - first for first, last in (window.tokens for window in windows))
    layers = [reading(len(windows), read)]
    notes, below = len(windows) * h, float(tokens)
    layer = Layer(0, settled.window, settled.stride, settled.summary_tokens)
    while notes > settled.window and len(layers) < settled.max_layers:
        layer = layer.above(1 - notes / below, settled.min_shrink)
        slices = stride_starts(round(notes), layer.window, layer.stride)
        text = sum(last - first for first, last in slices)
        merged = lengths.reply("merge", SUMMARY_TOKENS)
        notes, below = len(slices) * min(merged, layer.reply), notes
        layers.append(
            Step(at_once * len(slices), at_once * (text + len(slices) * lengths.of("merge")), at_once * round(notes))
        )
    direct = settled.buffer_tokens if settled.skip == "on" else 0
    memory = round(min(notes, settled.window)) + min(direct, tokens)
    sub_answer = lengths.one("sub_answer", memory)
    pointed = len(windows) if settled.rank == "order" else min(len(windows), ceil(POINTED * sqrt(len(windows))))
    later = [reading(pointed, read * pointed / len(windows)), sub_answer] * hops
    final = (
        combining(channels, lengths)
        if settled.final == "sub_answers"
        else lengths.one("direct", min((1 + hops) * memory, tokens))
    )
    return Steps(decomposing(settled, lengths), layers, [sub_answer.times(at_once), *later, final])


def decomposing(settled: Settled, lengths: Lengths) -> Sequence[Step]:
    """The call that splits the question."""
    if settled.decompose == "off":
        return []
    return [lengths.one("decompose_hops" if settled.hops == "rounds" else "decompose", 0, DECOMPOSITION_TOKENS)]


def combining(channels: int, lengths: Lengths) -> Step:
    """The call that makes the answer from those to the sub-questions."""
    return lengths.one("answer", channels * (lengths.asked + ANSWER_TOKENS))


def _layer0(
    settled: Settled, channels: int, lengths: Lengths, assumptions: list[str]
) -> tuple[Sequence[tuple[str, float, float]], float]:  # fmt: skip
    """The prompts on a window, each with how many calls a window gets of it, and their reply's tokens; and h."""
    quotes = settled.evidence == "quotes"
    noting = ("quote" if quotes else "summarize") if settled.kernel == "split" else (
        "kernel_quotes" if quotes else "kernel_notes"
    )  # fmt: skip
    relevant = RELEVANT_SHARE if settled.filter else 1.0
    if settled.filter:
        assumptions.append(f"{relevant:.0%} of the windows are taken to be relevant.")
    usual = QUOTED_TOKENS if quotes else min(SUMMARY_TOKENS, SUMMARY_SHARE * settled.window)
    h = float(min(usual, settled.summary_tokens))
    if settled.kernel == "split":
        written = lengths.reply(noting, h)
        _assume(written * relevant, noting, lengths, assumptions)
        judge = "relevance" if settled.relevance == "json" else "score"
        judged = lengths.reply(judge, RELEVANCE_TOKENS if judge == "relevance" else 1)
        return [(judge, channels, judged), (noting, channels * relevant, written)], written * relevant
    calls = channels if settled.kernel == "fused" else 1
    written = lengths.reply(noting, channels / calls * (FORM_TOKENS + h * relevant))
    h = max(0.0, written * calls / channels - FORM_TOKENS)
    _assume(h, noting, lengths, assumptions)
    return [(noting, calls, written)], h


def _assume(h: float, role: str, lengths: Lengths, assumptions: list[str]) -> None:
    known = "has had" if lengths.known(role) else "is taken to have"
    assumptions.append(f"A window's summary {known} {h:.0f} tokens for each sub-question.")
