"""What ConvMem would cost on a document: the arithmetic of METHODS section 1, without any call."""

from __future__ import annotations

from collections.abc import Sequence

from convmem import prompts
from convmem.core import LayerPlan, Plan, Span
from convmem.document import Document, stride_starts
from convmem.memory.convolution import Layer
from convmem.methods.base import Facts
from convmem.methods.convmem.config import PROMPT_TOKENS, Config, Settled
from convmem.methods.convmem.windows import slide

SUMMARY_TOKENS = 320
"""h, what a window's summary is taken to have, after the depths that the paper reports (section B.2)."""
QUOTED_TOKENS = 60
"""h where it is quotes."""
RELEVANT_SHARE = 0.25
"""The share of windows that are taken to pass the filter."""
QUESTION_TOKENS = 30
DECOMPOSITION_TOKENS = 80
RELEVANCE_TOKENS = 8
ANSWER_TOKENS = 40


def estimate(config: Config, document: Document, facts: Facts, question: str) -> Plan:
    """The calls and tokens of a run; what they rest on is in the plan's ``assumptions``."""
    count = facts.tokenizer.count
    asked = count(question) if question else QUESTION_TOKENS
    settled = config.settled(logprobs=bool(facts.logprobs), context=facts.context)
    tokens = document.count(Span(0, document.size), facts.tokenizer)
    assumptions = [] if facts.tokenizer.exact else ["Tokens are estimated, not counted."]
    if config.kernel is None and facts.logprobs is None:
        assumptions.append("The model is taken to give no log-probabilities.")

    def frame(name: str) -> int:
        """The tokens of a prompt besides its texts."""
        template = prompts.load(name)
        return count(template.system + template.user) + asked

    if tokens <= settled.one_call_tokens and (facts.context is None or tokens + PROMPT_TOKENS <= facts.context):
        assumptions.append("The document is read in one call.")
        whole = LayerPlan(1, tokens + frame("direct"))
        return _plan(facts, assumptions, tokens, 1, 1, [whole], whole.prompt_tokens, 1, ANSWER_TOKENS, 1)

    windows = slide(document, facts.tokenizer, settled)
    channels = 1 if settled.decompose == "off" else settled.expected_channels
    read = sum(last - first for first, last in (window.tokens for window in windows))
    roles, h = _layer0(settled)
    if settled.filter and h:
        assumptions.append(f"{RELEVANT_SHARE:.0%} of the windows are taken to be relevant.")
        h *= RELEVANT_SHARE
    if h:
        assumptions.append(f"A window's summary is taken to have {h:.0f} tokens for each sub-question.")
    per_window = channels if settled.kernel in ("split", "fused") else 1
    layers = [
        LayerPlan(len(windows) * per_window * len(roles),
                  per_window * sum(read + len(windows) * frame(role) for role in roles))
    ]  # fmt: skip
    replies = len(windows) * (1 if settled.kernel == "score" else round(channels * (RELEVANCE_TOKENS + h)))

    notes, below = len(windows) * h, tokens
    layer = Layer(0, settled.window, settled.stride, settled.summary_tokens)
    while notes > settled.window and len(layers) < settled.max_layers:
        layer = layer.above(1 - notes / below, settled.min_shrink)
        slices = stride_starts(round(notes), layer.window, layer.stride)
        text = sum(last - first for first, last in slices)
        layers.append(LayerPlan(channels * len(slices), channels * (text + len(slices) * frame("merge"))))
        notes, below = len(slices) * min(SUMMARY_TOKENS, layer.reply), notes
        replies += channels * round(notes)

    direct = settled.buffer_tokens if settled.skip == "on" or settled.evidence == "windows" else 0
    memory = round(min(notes, settled.window)) + min(direct, tokens)
    decomposing = 0 if settled.decompose == "off" else 1
    prompt = (
        decomposing * frame("decompose")
        + sum(layer.prompt_tokens for layer in layers)
        + channels * (memory + frame("sub_answer"))
        + (
            frame("answer") + channels * (asked + ANSWER_TOKENS)
            if settled.final == "sub_answers"
            else memory + frame("direct")
        )
    )  # fmt: skip
    calls = decomposing + sum(layer.calls for layer in layers) + channels + 1
    replies += decomposing * DECOMPOSITION_TOKENS + (channels + 1) * ANSWER_TOKENS
    depth = decomposing + len(layers) + (settled.kernel == "split" and settled.filter) + 2
    return _plan(facts, assumptions, tokens, len(windows), channels, layers, prompt, calls, replies, depth)


def _layer0(settled: Settled) -> tuple[Sequence[str], float]:
    """The prompts that a window gets from each channel (or from all together), and what h has in tokens."""
    quotes = settled.evidence == "quotes"
    h = min(QUOTED_TOKENS if quotes else SUMMARY_TOKENS, settled.summary_tokens)
    match settled.kernel:
        case "score":
            return ["score"], 0
        case "split":
            judge = "relevance" if settled.relevance == "json" else "score"
            return [judge, "quote" if quotes else "summarize"], h
        case _:
            return ["kernel_quotes" if quotes else "kernel_notes"], h


def _plan(
    facts: Facts, assumptions: Sequence[str], tokens: int, windows: int, channels: int, layers: Sequence[LayerPlan],
    prompt: int, calls: int, replies: int, depth: int,
) -> Plan:  # fmt: skip
    speed = facts.tokens_per_second
    seconds = round(prompt / speed[0] + replies / speed[1], 1) if speed else None
    return Plan(
        tokens, windows, channels, tuple(layers), calls, prompt, replies, depth, seconds, tuple(assumptions)
    )  # fmt: skip
