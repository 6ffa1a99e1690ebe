"""The one extractor of final answers: what a memory agent says, and what is scored, is what it returns.

Knows strings only (METHODS sections 5 and 11).
"""

from __future__ import annotations

import re

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\s*\{")
_COMMAND = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
_PHRASE = re.compile(
    r"(?:\b(?:the|my)\s+(?:final\s+|correct\s+)?answer(?:\s+to\s+the\s+question)?\s+is\b|^\W*(?:final\s+)?answer\s*:)",
    re.IGNORECASE | re.MULTILINE,
)
_EDGES = ' \t\r\n*_`"“”:'


def extract(reply: str) -> str:
    r"""The answer in ``reply``, empty where there is none.

    Reasoning in think tags is removed, an unopened one from the start, an unfinished one to the end. Then comes the
    first of these that is there, each time its last occurrence: ``\boxed{…}`` (unfinished: to the end), an answer tag,
    what follows "the answer is" or "Answer:" on its line or the next; else the whole reply. Markdown and quotation
    marks around it are removed.
    """
    text = _THINKING.sub("", reply).rpartition("</think>")[2].strip()
    for find in (_boxed, _tagged, _phrased):
        found = find(text)
        if found is not None:
            return found.strip(_EDGES)
    return text.strip(_EDGES)


def _boxed(text: str) -> str | None:
    starts = list(_BOXED.finditer(text))
    if not starts:
        return None
    start = starts[-1].end()
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            break
    else:
        end = len(text)
    return _COMMAND.sub(r"\1", text[start:end])


def _tagged(text: str) -> str | None:
    found = _TAGGED.findall(text)
    return found[-1] if found else None


def _phrased(text: str) -> str | None:
    for match in reversed(list(_PHRASE.finditer(text))):
        rest = text[match.end() :].lstrip(_EDGES)
        if rest:
            return rest.split("\n", 1)[0]
    return None
