"""What ConvMem would cost on a document: the arithmetic of METHODS section 1 and of ranked reading; makes no call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from convmem import prompts
from convmem.core import LayerPlan, Plan, Span
from convmem.document import Document, Windows, stride_starts
from convmem.memory.calibration import EXPECTED, calibrated
from convmem.memory.convolution import Layer
from convmem.memory.reading import FEW, SHARE
from convmem.methods.base import Facts
from convmem.methods.convmem.config import PROMPT_TOKENS, Config, Settled
from convmem.methods.convmem.ranked import POINTED
from convmem.methods.convmem.windows import slide

SUMMARY_TOKENS, SUMMARY_SHARE = 320, 0.04
"""h, what a window's summary is taken to have at most, and of the window's length, after the depths that the paper
reports for windows of 8,000 tokens (section B.2)."""
QUOTED_TOKENS = 60
"""h where it is quotes."""
RELEVANT_SHARE = 0.25
"""The share of windows that are taken to pass the filter."""
YES_SHARE = 0.05
"""The share of windows without evidence that are taken to be scored as if they had some."""
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


def estimate(config: Config, document: Document, facts: Facts, question: str) -> Plan:
    """The calls and tokens of a run; what they rest on is in the plan's ``assumptions``."""
    settled = config.settled(
        logprobs=bool(facts.logprobs), context=facts.context, calibration=calibrated(facts.identity)
    )
    tokens = document.count(Span(0, document.size), facts.tokenizer)
    assumptions = [] if facts.tokenizer.exact else ["Tokens are estimated, not counted."]
    if config.kernel is None and facts.logprobs is None:
        assumptions.append("The model is taken to give no log-probabilities.")
    lengths = Lengths(facts, question)
    windows: Windows | None = None
    channels = 1
    if tokens <= settled.one_call_tokens and (facts.context is None or tokens + PROMPT_TOKENS <= facts.context):
        assumptions.append("The document is read in one call.")
        steps = Steps([], [Step(1, tokens + lengths.of("direct"), ANSWER_TOKENS)], [])
    else:
        windows = slide(document, facts.tokenizer, settled)
        channels = 1 if settled.decompose == "off" else settled.expected_channels
        made = ranked if settled.evidence == "windows" else tree
        steps = made(settled, windows, tokens, channels, lengths, assumptions)
    budget = facts.limits.of(tokens).budget
    if budget is not None and steps.tokens > budget:
        steps = steps.within(budget)
        assumptions.append("The budget is taken to be spent; reading ends earlier where an answer is found.")
    chain = [*steps.before, *steps.layers, *steps.after]
    return Plan(
        tokens=tokens,
        windows=1 if windows is None else len(windows),
        channels=channels,
        layers=tuple(LayerPlan(step.calls, step.prompt) for step in steps.layers),
        calls=sum(step.calls for step in steps.every),
        prompt_tokens=sum(step.prompt for step in steps.every),
        completion_tokens=sum(step.reply for step in steps.every),
        depth=len(chain) + settled.waits,
        seconds=round(sum(step.seconds(facts) for step in chain), 1) if facts.tokens_per_second else None,
        assumptions=tuple(assumptions),
    )


class Lengths:
    """The tokens that prompts have besides their texts, and those of replies where they are known of earlier calls."""

    def __init__(self, facts: Facts, question: str) -> None:
        self._count = facts.tokenizer.count
        self._replies = facts.replies
        self.asked = self._count(question) if question else QUESTION_TOKENS

    def of(self, name: str) -> int:
        """What the prompt of that name has, with a question."""
        template = prompts.load(name)
        return self._count(template.system + template.user) + self.asked

    def reply(self, name: str, assumed: float) -> float:
        """What the reply to that prompt has; ``assumed`` where nothing is known."""
        return self._replies.get(name, assumed)

    def known(self, name: str) -> bool:
        """Whether earlier replies to that prompt are known of."""
        return name in self._replies


def ranked(
    settled: Settled, windows: Windows, tokens: int, channels: int, lengths: Lengths, assumptions: list[str]
) -> Steps:  # fmt: skip
    """Ranked reading: every window once, some again, and a sub-question that leads to another."""
    read = sum(last - first for first, last in (window.tokens for window in windows))
    each, frame = read / len(windows), lengths.of("score")
    again = second_views(settled, len(windows)) if settled.views > 1 else 0
    reading = Step(len(windows) + again, round(read + again * 1.5 * each) + (len(windows) + again) * frame,
                   len(windows) + again)  # fmt: skip
    hops = channels - 1 if settled.hops == "rounds" else 0
    evidence = min(settled.buffer_tokens, tokens)
    pointed = min(len(windows), ceil(POINTED * sqrt(len(windows))))
    sub_answer = Step(1, evidence + lengths.of("sub_answer"), ANSWER_TOKENS)
    after = [sub_answer, Step(pointed, round(pointed * (each + frame)), pointed)] * hops
    if settled.final == "sub_answers":
        after += [sub_answer] * (channels - hops)
        after.append(Step(1, lengths.of("answer") + channels * (lengths.asked + ANSWER_TOKENS), ANSWER_TOKENS))
    else:
        after.append(Step(1, evidence + lengths.of("direct"), ANSWER_TOKENS))
    if hops:
        assumptions.append("The answer to each sub-question is taken to lead to the next.")
    if again:
        assumptions.append(f"A second look is taken to be worth while at {again:,} windows.")
    return Steps([], [reading], after, decomposing(settled, lengths))


def second_views(settled: Settled, windows: int) -> int:
    """How many windows are taken to be worth a second view: those where ranking or model say that evidence may be."""
    prior = settled.calibration.prior(np.arange(1.0, windows + 1))
    denied = prior + settled.calibration.said(np.array(0.05))
    doubtful = int(np.sum(denied >= np.log(settled.view_worth / (1 - settled.view_worth))))
    return min(windows, round(FEW + SHARE * windows), round(doubtful + EXPECTED + YES_SHARE * windows))


def tree(
    settled: Settled, windows: Windows, tokens: int, channels: int, lengths: Lengths, assumptions: list[str]
) -> Steps:  # fmt: skip
    """Every window for every channel, notes merged layer by layer, sub-answers and the answer.

    In rounds, each sub-question after the first is taken to have windows of its own, those that an answer points to.
    """
    rounds = channels if settled.hops == "rounds" else 1
    at_once = channels // rounds
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
    sub_answers = Step(at_once, at_once * (memory + lengths.of("sub_answer")), at_once * ANSWER_TOKENS)
    final = (
        lengths.of("answer") + channels * (lengths.asked + ANSWER_TOKENS)
        if settled.final == "sub_answers"
        else min(rounds * memory, tokens) + lengths.of("direct")
    )
    pointed = len(windows) if settled.rank == "order" else min(len(windows), ceil(POINTED * sqrt(len(windows))))
    later = [reading(pointed, read * pointed / len(windows)), sub_answers] * (rounds - 1)
    return Steps(decomposing(settled, lengths), layers, [sub_answers, *later, Step(1, final, ANSWER_TOKENS)])


def decomposing(settled: Settled, lengths: Lengths) -> Sequence[Step]:
    """The call that splits the question."""
    if settled.decompose == "off":
        return []
    return [Step(1, lengths.of("decompose_hops" if settled.hops == "rounds" else "decompose"), DECOMPOSITION_TOKENS)]


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
