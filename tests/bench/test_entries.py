"""Methods as they take part: what a person types, and what it is called in the results."""

from __future__ import annotations

import pytest

from convmem.bench.entries import entries
from convmem.core import InputError


def test_presets_and_settings_make_the_label() -> None:
    paper, off, plain = entries(
        ["convmem:paper", "convmem:paper+skip=off+window=500", "full-context"], {"temperature": "0"}, 9_000
    )
    assert paper.label == "convmem:paper+temperature=0+budget=9000"
    assert off.label == "convmem:paper+skip=off+window=500+temperature=0+budget=9000"
    assert plain.label == "full-context:lean+temperature=0+budget=9000"
    assert (off.method.config.skip, off.method.config.window, off.method.config.temperature) == ("off", 500, 0)
    assert (paper.method.config.window, paper.preset, paper.run.budget) == (8_000, "paper", 9_000)


def test_own_settings_go_before_common_ones_and_those_only_where_they_fit() -> None:
    tree, whole = entries(["convmem:paper+window=500", "full-context:paper"], {"window": "700"}, None)
    assert tree.label == "convmem:paper+window=500"
    assert whole.label == "full-context:paper"


@pytest.mark.parametrize(
    ("specs", "changes", "said"),
    [
        (["none"], {}, "none"),
        (["convmem:best"], {}, "best"),
        (["convmem+windw=5"], {}, "window"),
        (["convmem+window=0"], {}, "window"),
        (["full-context"], {"window": "5"}, "window"),
        (["convmem+seed=1"], {}, "seed"),
        (["convmem", "convmem:lean"], {}, "twice"),
        (["convmem+retries=-1"], {}, "retries"),
    ],
)
def test_what_is_wrong_is_named(specs: list[str], changes: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        entries(specs, changes, None)


def test_the_environment_plays_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVMEM_WINDOW", "123")
    (entry,) = entries(["convmem:paper"], {}, None)
    assert entry.method.config.window == 8_000
