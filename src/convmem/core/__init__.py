"""Plain data that all rooms share. Knows nothing of files, models or methods."""

from convmem.core.answer import (
    NOT_FOUND,
    Answer,
    Citation,
    Claim,
    Coverage,
    FailedWindow,
    Ledger,
    Location,
    SubAnswer,
    Totals,
    Truncation,
    Verdict,
)
from convmem.core.call import (
    Call,
    Completion,
    Finish,
    Message,
    Model,
    Sampling,
    Tokenizer,
    TokenLogprobs,
    Usage,
)
from convmem.core.errors import (
    BudgetExhausted,
    CallFailed,
    ContextExceeded,
    ConvMemError,
    DeadlinePassed,
    Fatal,
    InputError,
    Malformed,
    ModelError,
    RateLimited,
    Refused,
    Stopped,
    TimedOut,
    Transient,
    extra,
    first_of,
)
from convmem.core.events import (
    BestAnswer,
    CallEnded,
    CallStarted,
    Done,
    Downloading,
    Event,
    EvidenceFound,
    LayerStarted,
    Planned,
    Warned,
    WindowRead,
)
from convmem.core.evidence import Evidence, Origin, Piece, Relevance, ReplySlice
from convmem.core.plan import Alternative, LayerPlan, Plan
from convmem.core.span import Span, union
from convmem.core.threads import checkpoint, in_thread

__all__ = [
    "NOT_FOUND",
    "Alternative", "Answer", "BestAnswer", "BudgetExhausted", "Call", "CallEnded", "CallFailed", "CallStarted",
    "Citation", "Claim", "Completion", "ContextExceeded", "ConvMemError", "Coverage", "DeadlinePassed", "Done",
    "Downloading", "Event", "Evidence", "EvidenceFound", "FailedWindow", "Fatal", "Finish", "InputError", "LayerPlan",
    "LayerStarted", "Ledger", "Location", "Malformed", "Message", "Model", "ModelError", "Origin", "Piece", "Plan",
    "Planned", "RateLimited", "Refused", "Relevance", "ReplySlice", "Sampling", "Span", "Stopped", "SubAnswer",
    "TimedOut", "TokenLogprobs", "Tokenizer", "Totals", "Transient", "Truncation", "Usage", "Verdict", "Warned",
    "WindowRead", "checkpoint", "extra", "first_of", "in_thread", "union",
]  # fmt: skip
