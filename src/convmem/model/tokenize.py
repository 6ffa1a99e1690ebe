"""A server's own tokenizer, asked over HTTP. Knows two forms of ``/tokenize``: llama.cpp's and vLLM's."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import Any, Literal
from urllib.error import HTTPError

import numpy as np
from numpy.typing import NDArray

from convmem.core import ModelError, Transient, checkpoint
from convmem.model.transport import LARGEST, sound

LONGEST_REQUEST = 65_536
"""Characters sent at once. Texts are cut before a space that follows a word, where tokenizers cut too."""

_PROBE = "A short text, to see whether the tokenizer answers."
_SECONDS = 60.0
_WAITS = (0.5, 2.0)
"""Seconds before each further try, where the server failed and did not refuse."""


class ServerTokenizer:
    """Counts and offsets by the tokenizer of the model that ``url`` serves: exact, with a request for every text.

    ``url`` is the whole address of ``/tokenize``. Where tokens don't spell the text, since the tokenizer normalizes it,
    they are taken to start in proportion to what they spell. Both methods raise ModelError where the server doesn't
    answer with tokens.
    """

    exact = True
    remote = True

    def __init__(self, url: str, model: str, dialect: Literal["llama.cpp", "vllm"], headers: Mapping[str, str]) -> None:
        self.identity = f"served:{model}"
        self._url, self._model, self._dialect, self._headers = url, model, dialect, headers
        self._opener = urllib.request.build_opener(_NoRedirects)

    def check(self) -> None:
        """Raise ModelError where the server doesn't answer, or not with tokens that spell a text."""
        if _spelled(self._ask(_PROBE, spelled=True), _PROBE.encode()) is None:
            raise ModelError(f"The tokens of the tokenizer at {self._url} don't spell the text.")

    def count(self, text: str) -> int:
        """The number of tokens in ``text``, without those that a chat template adds."""
        return sum(len(self._ask(part, spelled=False)) for part in _parts(sound(text)))

    def offsets(self, text: str) -> NDArray[np.uint32]:
        """The character at which each token starts, shape (tokens,)."""
        starts, done = [np.zeros(0, np.uint32)], 0
        for part in _parts(sound(text)):
            starts.append(_starts(self._ask(part, spelled=True), part) + np.uint32(done))
            done += len(part)
        return np.concatenate(starts)

    def _ask(self, text: str, *, spelled: bool) -> Sequence[Any]:
        """The tokens of ``text``: their spelling where ``spelled``, else whatever stands for each."""
        body: dict[str, Any]
        if self._dialect == "llama.cpp":
            body = {"content": text, "with_pieces": spelled}
        else:
            body = {"model": self._model, "prompt": text, "add_special_tokens": False, "return_token_strs": spelled}
        try:
            answer = json.loads(self._send(json.dumps(body).encode()))
            if not spelled:
                return list(answer["tokens"])
            if self._dialect == "llama.cpp":
                return [token["piece"] for token in answer["tokens"]]
            return list(answer["token_strs"])
        except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError) as error:
            raise Transient(f"The server's tokenizer at {self._url} does not answer ({error}).") from error

    def _send(self, body: bytes) -> bytes:
        """What the server answers, asked again where it failed."""
        request = urllib.request.Request(self._url, body, dict(self._headers))
        for wait in _WAITS:
            try:
                return self._read(request)
            except HTTPError as refusal:
                if refusal.code < 500 and refusal.code != 429:
                    raise
            except TimeoutError:
                raise
            except (OSError, HTTPException):
                pass
            time.sleep(wait)
        return self._read(request)

    def _read(self, request: urllib.request.Request) -> bytes:
        with self._opener.open(request, timeout=_SECONDS) as response:
            body: bytes = response.read(LARGEST)
            return body


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key is for the server that was named, and for no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _parts(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > LONGEST_REQUEST:
        checkpoint()
        end = start + LONGEST_REQUEST
        cut = text.rfind(" ", start + 1, end)
        while cut > 0 and (text[cut - 1].isspace() or text[cut + 1].isspace()):
            cut = text.rfind(" ", start + 1, cut)
        yield text[start : cut if cut > 0 else end]
        start = cut if cut > 0 else end
    if start < len(text):
        yield text[start:]


def _starts(pieces: Sequence[Any], text: str) -> NDArray[np.uint32]:
    """Where each piece starts in ``text``, in characters; a piece that starts inside a character starts with it."""
    data = text.encode()
    lengths = _spelled(pieces, data) or [len(piece) if isinstance(piece, str | list) else 1 for piece in pieces] or [1]
    ends = np.cumsum(lengths)
    starts = np.concatenate([[0], ends[:-1]]) * len(data) // max(int(ends[-1]), 1)
    octets = np.frombuffer(data, np.uint8)
    characters = np.flatnonzero((octets & 0xC0) != 0x80)  # the bytes that begin a character
    return (np.searchsorted(characters, starts, side="right") - 1).astype(np.uint32)


def _spelled(pieces: Sequence[Any], data: bytes) -> list[int] | None:
    """The bytes of ``data``, a text in UTF-8, that each piece spells; None where together they don't spell it."""
    for spell in (_plain, _byte_level, _sentencepiece):
        try:
            spelled = [spell(piece) for piece in pieces]
        except (KeyError, TypeError, ValueError):
            continue
        whole = b"".join(spelled)
        if whole == b" " + data:  # some vocabularies put a space before the text
            spelled[0] = spelled[0][1:]
        elif whole != data:
            continue
        return [len(piece) for piece in spelled]
    return None


def _plain(piece: str | list[int]) -> bytes:
    """llama.cpp: text, or the bytes of a token that is part of a character."""
    return piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else b"".join(bytes([b]) for b in piece)


def _byte_level(piece: str) -> bytes:
    """Byte-level BPE: each character stands for a byte."""
    return bytes(_BYTE_OF[character] for character in piece)


def _sentencepiece(piece: str) -> bytes:
    """SentencePiece: ``▁`` for a space, ``<0x0A>`` for a byte."""
    byte = re.fullmatch(r"<0x([0-9A-F]{2})>", piece)
    return bytes.fromhex(byte[1]) if byte else piece.replace("▁", " ").encode("utf-8", "surrogatepass")


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE's alphabet: printable bytes stand for themselves, the others are moved past 255 in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + place): byte for place, byte in enumerate(moved)}


_BYTE_OF = _byte_alphabet()
