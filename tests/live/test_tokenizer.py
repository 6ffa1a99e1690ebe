"""The vocabulary read from the embedded model's file counts as the server that runs the model does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from convmem.core import Tokenizer
from convmem.document import GgufTokenizer
from convmem.model import Embedded, find_local
from convmem.model.download import fetch
from tests.document.texts import EMBEDDED_TOKENS, TEXTS

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def path() -> Path:
    return find_local() or fetch()


@pytest.fixture(scope="module")
def served(path: Path) -> Iterator[Tokenizer]:
    model = Embedded(path, context=512)
    asyncio.run(model.prepare())
    assert model.tokenizer
    yield model.tokenizer
    asyncio.run(model.close())


def test_every_token_starts_where_the_server_says(path: Path, served: Tokenizer) -> None:
    own = GgufTokenizer(path)
    for name, text in TEXTS.items():
        assert own.offsets(text).tolist() == served.offsets(text).tolist(), name
        assert own.count(text) == served.count(text) == EMBEDDED_TOKENS[name]
