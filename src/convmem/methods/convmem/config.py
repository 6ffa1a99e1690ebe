"""Every mechanism, number and decision of ConvMem as one field each (METHODS sections 1 and 2)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from convmem.memory.calibration import Calibration
from convmem.memory.convolution import Layer
from convmem.methods.base import MethodConfig

OVER_SCANNING = 5
PROMPT_TOKENS = 400
"""What a prompt may need besides the text that it is about, in tokens: instructions and questions of usual length."""
LEAST_WINDOW = 64
SCORE_WINDOW = 300
BUFFER_OF_WINDOWS = 1_500
QUOTE_WINDOW = 4_000
_UNCALIBRATED = Calibration()


class Config(MethodConfig):
    """Settings of ConvMem; without a preset, those of the paper.

    ``kernel``, ``relevance``, ``evidence`` and ``window`` may be Unset: chosen for the model when the run starts, as
    preset ``lean`` does.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "lean": {
            "temperature": 0.0,
            "top_p": 1.0,
            "window": None,
            "kernel": None,
            "relevance": None,
            "evidence": None,
            "overlap": "boundary",
            "rank": "lexical",
            "views": 2,
            "hops": "rounds",
            "attempts": 3,
            "relevance_background": None,
            "relevance_direct": None,
            "score_scale": None,
            "score_bias": None,
            "lexical_weight": None,
            "filter": True,
            "final": "passages",
            "one_call_tokens": 8_000,
        },
    }

    window: int | None = Field(8_000, ge=1)
    """W, tokens of a window (kernel size, section 2.1, table 2). Unset: by the kernel, 300 for `score`, else 4,000."""
    stride: int | None = Field(None, ge=1)
    """S, tokens from one window's start to the next (section 2.3.1). Unset: W/5, five views of every token, as
    published. Where windows end at boundaries, it counts in the layers above 0 only."""
    c_max: int = Field(5, ge=1, le=20)
    """C_max, the most sub-questions (5 in section B.2 of the paper, 10 in its table 2)."""
    decompose: Literal["sub_questions", "off", "repeat"] = "sub_questions"
    """Multi-kernel convolution (section 2.3.3): a channel for each sub-question; `off`: one channel with Q; `repeat`:
    as many channels as there would be, all with Q (a control for the extra scans)."""
    expected_channels: int | None = Field(None, ge=1)
    """C as assumed by an estimate, before the question is decomposed. Unset: as many as the model's earlier questions
    had on average, without those 3."""
    kernel: Literal["split", "fused", "joint", "score"] | None = "split"
    """The form of eq. (1): relevance and summary in two calls; in one; in one for all channels; relevance alone by Yes
    or No. Unset: `score` where the model gives log-probabilities, else `joint`."""
    relevance: Literal["json", "logprob"] | None = "json"
    """r as a JSON value, or from the log-probabilities of a one-token reply. Unset: `logprob` for `score`, else
    `json`."""
    relevance_background: float | None = Field(0.1, ge=0, le=1)
    """Probability of Yes from which r is 1, for `logprob`. Unset: as calibrated for the model, without that 0.5."""
    relevance_direct: float | None = Field(0.5, ge=0, le=1)
    """Probability of Yes from which r is 2, for `logprob`. Unset: as calibrated for the model, without that 0.6."""
    score_scale: float | None = Field(1.0, ge=0, le=10)
    """By what the log-odds of Yes are multiplied, for `windows`. Unset: as calibrated for the model, without that 1."""
    score_bias: float | None = Field(0.0, ge=-10, le=10)
    """What is added to them, for `windows`. Unset: as calibrated for the model, without that 0."""
    rank: Literal["order", "lexical", "hybrid"] = "order"
    """In which order windows are read: the document's, by BM25 with the question, or by BM25 and embeddings."""
    lexical_weight: float | None = Field(1.0, ge=0, le=10)
    """How much the log-odds of relevance fall with the logarithm of a window's place in the ranking, for `windows`.
    Unset: as calibrated for the model, without that 1."""
    views: int = Field(1, ge=1, le=5)
    """The most views of one window, for `windows`: those after the first have wider boundaries."""
    view_worth: float = Field(0.002, gt=0, lt=1)
    """The probability of relevance from which a window gets a further view, for `windows`, until its views agree."""
    hops: Literal["parallel", "rounds"] = "parallel"
    """All sub-questions at once, or one round a hop: a later one names an earlier one's answer (idea 4)."""
    attempts: int = Field(1, ge=1, le=5)
    """The most attempts at an answer, for `windows`: each one that finds nothing is followed by one that reads more."""
    early_exit: bool = False
    """Whether reading ends early (idea 6): with `windows`, when agreeing views have led to an answer; else when every
    channel has overlapping windows of r = 2 that say the same, which then answer without the layers above."""
    evidence: Literal["summary", "quotes", "records", "windows"] | None = "summary"
    """h: bullets in the model's words; verbatim quotes with their spans; records (entity, attribute, value, span); or
    the windows' own text, the likeliest ones that `buffer_tokens` hold. Unset: `windows` for `score`, else `quotes`."""
    overlap: Literal["stride", "boundary"] = "stride"
    """Windows that start every S tokens, or that end at a paragraph or sentence and repeat only what straddles."""
    filter: bool = False
    """Windows with r = 0 leave the tree (idea 1): their notes go no further, and `split` does not ask for them. With
    `windows`, the ranking decides instead."""
    upper_stride: Literal["same", "full"] = "same"
    """Above layer 0, overlap as below, or S = W, cut between bullets (idea 2)."""
    fan_in: int | None = Field(None, ge=1)
    """How much of H one merge reads, in tokens (idea 7). Unset: W."""
    merge: Literal["model", "records"] = "model"
    """Upper layers by the model, or records joined by code, values that conflict side by side (idea 3)."""
    dedupe: Literal["none", "exact", "embedding"] = "none"
    """Whether notes of layer 0 that say the same are made one without a model: by their words, or by embeddings that
    are near (idea 2)."""
    keep_empty: bool = False
    """Whether the marker of a window without notes stays in H."""
    summary_tokens: int = Field(1_000, ge=1)
    """The longest summary of one window, in tokens."""
    skip: Literal["on", "off", "matched"] = "on"
    """Skip connections (section 2.3.2). `matched`: off, with as much more room for summaries as the windows would take
    (a control for the extra text)."""
    buffer_tokens: int | None = Field(None, ge=0)
    """Capacity of the residual buffer B, in tokens. Unset: W; for `windows` 1,500."""
    deferred_tokens: int = Field(0, ge=0)
    """Capacity for what is undecided, in tokens: quotes of windows with r = 1 travel word for word beside H to the
    answer, but for those whose windows a later hop reads as irrelevant (CoEM's idea on a tree). For `quotes`."""
    max_layers: int = Field(8, ge=1)
    """The most layers, layer 0 included; what is too long after the last is cut from the least relevant end."""
    min_shrink: float = Field(0.1, ge=0, lt=1)
    """A layer that shrinks its input by less is followed by a tighter one: S = W, then shorter replies."""
    answer_tokens: int = Field(300, ge=1)
    """The longest sub-answer and the longest answer, in tokens."""
    final: Literal["sub_answers", "passages"] = "sub_answers"
    """What the final call reads besides Q: the sub-answers (eq. 7), or what all channels kept of the document."""
    one_call_tokens: int = Field(0, ge=0)
    """A document of at most so many tokens, and that fits the model's context, is read in one call; 0: never."""

    index: Literal["off", "records", "summary"] = "off"
    """A pass that knows no question, made once for each document and kept: what is kept of a window, records (entity,
    attribute, value) or a summary (idea 5). Questions are then looked up instead of read for."""
    index_window: int = Field(1_000, ge=2)
    """The longest window of that pass, in tokens; its end follows from its content."""
    index_tokens: int = Field(1_000, ge=1)
    """The most that is kept of one such window, in tokens."""
    lookups: int = Field(6, ge=1, le=20)
    """The most calls of a question that is looked up: the first from the index, the others from the document."""
    lookup_tokens: int = Field(2_500, ge=1)
    """What the index says, or the passages, in one such call, in tokens."""

    @field_validator("index", mode="before")
    @classmethod
    def _on_or_off(cls, value: object) -> object:
        """True stands for records, False for off."""
        return {True: "records", False: "off"}.get(value, value) if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.window and self.stride and self.stride > self.window:
            raise ValueError(
                f"the stride ({self.stride}) may not exceed the window ({self.window}): text would be missed"
            )
        low, high = self.relevance_background, self.relevance_direct
        if low is not None and high is not None and low > high:
            raise ValueError("the threshold relevance_background may not exceed relevance_direct")
        if self.kernel == "score" and self.evidence in ("summary", "quotes"):
            raise ValueError(f"kernel 'score' writes nothing, so evidence can't be {self.evidence!r}; use 'windows'")
        if self.kernel not in ("score", None) and self.evidence == "windows":
            raise ValueError(f"evidence 'windows' goes with kernel 'score', not {self.kernel!r}")
        if self.evidence == "records" and self.kernel == "split":
            raise ValueError("evidence 'records' goes with kernel 'fused' or 'joint', not 'split'")
        if self.merge == "records" and self.evidence != "records":
            raise ValueError("merge 'records' joins records: set evidence to 'records' too")
        if self.deferred_tokens and self.evidence not in ("quotes", None):
            raise ValueError(
                f"deferred_tokens carries quotes, so evidence can't be {self.evidence!r}; use 'quotes' ('windows' are "
                "the document's own words already)"
            )
        tree = self.kernel not in ("score", None) or self.evidence in ("summary", "quotes", "records")
        if self.early_exit and tree and (self.overlap == "boundary" or self.skip != "on"):
            raise ValueError(
                "early_exit needs windows that overlap, to agree, and skip connections, to answer from: "
                "set overlap to 'stride' and skip to 'on'"
            )
        if self.kernel in ("fused", "joint") and self.relevance == "logprob":
            raise ValueError(
                f"relevance 'logprob' needs a reply of one token: kernel 'split' or 'score', not {self.kernel!r}"
            )
        return self

    def settled(
        self, *, logprobs: bool, context: int | None, calibration: Calibration = _UNCALIBRATED
    ) -> Settled:  # fmt: skip
        """With everything chosen for a model. ``context``: tokens for a prompt and its reply, None where not known.

        Summaries that take more than a quarter of the context are shortened; a window that then has no room is
        narrowed, and the stride with it. Raises InputError where what is set doesn't go with what is chosen.
        """
        kernel = self.kernel or ("score" if logprobs and self.evidence in (None, "windows") else "joint")
        evidence = self.evidence or ("windows" if kernel == "score" else "quotes")
        wanted = self.window or (SCORE_WINDOW if kernel == "score" else QUOTE_WINDOW)
        reply, window = self.summary_tokens, wanted
        if context is not None:
            reply = max(1, min(reply, context // 4))
            window = min(wanted, max(LEAST_WINDOW, context - reply - PROMPT_TOKENS))
        buffer = BUFFER_OF_WINDOWS if evidence == "windows" else window
        learned = {
            "score_scale": calibration.scale,
            "score_bias": calibration.bias,
            "lexical_weight": calibration.fall,
            "relevance_background": calibration.background,
            "relevance_direct": calibration.direct,
        }
        return Settled.of(
            self.model_dump()
            | {
                "kernel": kernel,
                "relevance": self.relevance or ("logprob" if kernel == "score" else "json"),
                "evidence": evidence,
                "window": window,
                "stride": max(1, (self.stride or wanted // OVER_SCANNING) * window // wanted),
                "summary_tokens": reply,
                "buffer_tokens": buffer if self.buffer_tokens is None else self.buffer_tokens,
            }
            | {name: value for name, value in learned.items() if getattr(self, name) is None}
        )


class Settled(Config):
    """A configuration in which everything has been chosen."""

    window: int
    stride: int
    kernel: Literal["split", "fused", "joint", "score"]
    relevance: Literal["json", "logprob"]
    evidence: Literal["summary", "quotes", "records", "windows"]
    buffer_tokens: int
    relevance_background: float
    relevance_direct: float
    score_scale: float
    score_bias: float
    lexical_weight: float

    @property
    def calibration(self) -> Calibration:
        """What a score and a window's place count."""
        return Calibration(
            self.score_scale, self.score_bias, self.lexical_weight, self.relevance_background, self.relevance_direct
        )

    @property
    def filters(self) -> bool:
        """Whether windows with r = 0 leave the tree; where h is the windows' own text, the ranking decides instead."""
        return self.filter and self.evidence != "windows"

    @property
    def calls_at_once(self) -> int:
        """The calls that a reading is sure to make."""
        return 2 if self.kernel == "split" and not self.filter else 1

    @property
    def waits(self) -> int:
        """How often, in the longest chain of calls, one on a window waits for another on it."""
        return int(self.kernel == "split" and self.filter) + int(self.evidence == "windows" and self.views > 1)

    @property
    def note_tokens(self) -> int:
        """The longest h of one window, in tokens."""
        return max(self.summary_tokens, self.window) if self.evidence == "windows" else self.summary_tokens

    @property
    def upper(self) -> Layer:
        """How layers above 0 slice what they read (eq. 5)."""
        window = self.fan_in or self.window
        stride = window if self.upper_stride == "full" else max(1, window * self.stride // self.window)
        return Layer(0, window, stride, self.summary_tokens)

    @property
    def advance(self) -> int:
        """Tokens from one window's start to the next."""
        return self.window if self.overlap == "boundary" else self.stride

    @property
    def memory_tokens(self) -> int:
        """The most text that a sub-answer is made from, in tokens: H and B, or the relevant windows."""
        if self.evidence == "windows":
            return self.buffer_tokens
        return self.window + (0 if self.skip == "off" else self.buffer_tokens) + self.deferred_tokens
