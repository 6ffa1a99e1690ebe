"""A run's events as clients read them: JSON objects with a ``type``. Knows the events, and where their spans are.

``planned`` {plan} · ``layer_started`` {layer, calls} · ``call_started`` {role, layer, node} · ``call_ended`` {role,
layer, node, prompt_tokens, completion_tokens, cached, failed} · ``window_read`` {layer, channel, at, relevance,
score} · ``evidence_found`` {text, origin, relevance, score, channel, at: […]} · ``best_answer`` {text} · ``warned``
{text} · ``resumed`` {} (what came before it is told again) · and last ``done`` {answer}, ``failed`` {error} or
``cancelled`` {}.

``at`` is a place: ``source``, ``page``, ``line``, and ``start`` and ``end`` in characters of the source's text.
"""

from __future__ import annotations

from typing import Any

from convmem.api import answer_json, place_json, plan_json
from convmem.core import (
    BestAnswer,
    CallEnded,
    CallStarted,
    Done,
    Event,
    EvidenceFound,
    LayerStarted,
    Planned,
    Warned,
    WindowRead,
)
from convmem.document import Document

LAST = frozenset({"done", "failed", "cancelled"})
"""The types after which nothing follows."""


def event_json(event: Event, document: Document) -> dict[str, Any] | None:
    """One event of a run over ``document``; None for what a client has no use for."""
    match event:
        case Planned(plan):
            return {"type": "planned", "plan": plan_json(plan)}
        case LayerStarted(layer, calls):
            return {"type": "layer_started", "layer": layer, "calls": calls}
        case CallStarted(role, layer, node):
            return {"type": "call_started", "role": role, "layer": layer, "node": node}
        case CallEnded():
            return {
                "type": "call_ended",
                "role": event.role,
                "layer": event.layer,
                "node": event.node,
                "prompt_tokens": event.prompt_tokens,
                "completion_tokens": event.completion_tokens,
                "cached": event.cached,
                "failed": event.failed,
            }
        case WindowRead(layer, channel, span, relevance, score):
            at = place_json(document.locate(span))
            return {
                "type": "window_read",
                "layer": layer,
                "channel": channel,
                "at": at,
                "relevance": relevance,
                "score": score,
            }
        case EvidenceFound(evidence):
            return {
                "type": "evidence_found",
                "text": evidence.text,
                "origin": evidence.origin,
                "relevance": evidence.relevance,
                "score": evidence.score,
                "channel": evidence.channel,
                "at": [place_json(document.locate(span)) for span in evidence.spans],
            }
        case BestAnswer(text):
            return {"type": "best_answer", "text": text}
        case Warned(text):
            return {"type": "warned", "text": text}
        case Done(answer):
            return {"type": "done", "answer": answer_json(answer)}
        case _:
            return None
