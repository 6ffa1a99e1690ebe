"""What is indexed outlives the process, belongs to documents, and vanishes with the last of them."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import ConvMemError
from convmem.model import Cache
from convmem.model.index import Index, Indexed

KEYS = st.lists(st.sampled_from("abcdef"), max_size=5)


def document(name="a.txt", kind="records", model="m"):
    return Indexed(name, kind, model, 900, 0, 0, "")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), KEYS), max_size=6), st.sampled_from(["x", "y", "z"]))
def test_a_reading_is_kept_as_long_as_a_document_has_its_window(owned, removed):
    with closing(Index(None)) as index:
        has = {}
        for name, keys in owned:
            has[name] = keys
            index.own("", document(name), keys)
            for key in keys:
                index.put(key, f"notes of {key}")
        assert index.remove(removed) == (has.pop(removed, None) is not None)
        left = {key for keys in has.values() for key in keys}
        assert index.readings("abcdef") == {key: f"notes of {key}" for key in left}
        assert [(d.name, d.windows, d.read) for d in index.documents()] == [
            (name, len(keys), len(keys)) for name, keys in sorted(has.items())
        ]


KILLED = """
import os, signal, sys
from pathlib import Path
from convmem.model.index import Index, Indexed
index = Index(Path(sys.argv[1]), warn=sys.exit)
index.own("", Indexed("a.txt", "records", "m", 9, 0, 0, ""), ["k", "l"])
index.put("k", "notes")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_read_before_a_kill_is_there(tmp_path):
    path = tmp_path / "index.sqlite"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True)
    with closing(Index(path)) as index:
        assert index.readings(["k", "l"]) == {"k": "notes"}
        assert [(d.windows, d.read) for d in index.documents()] == [(2, 1)]


def test_namespaces_kinds_and_models_are_told_apart():
    with closing(Index(None)) as index:
        for namespace, kind, model in [
            ("", "records", "m"),
            ("", "summary", "m"),
            ("", "records", "n"),
            ("t", "x", "m"),
        ]:
            index.own(namespace, document(kind=kind, model=model), ["k"])
        assert [(d.kind, d.model) for d in index.documents()] == [
            ("records", "m"), ("records", "n"), ("summary", "m")
        ]  # fmt: skip
        assert index.remove("a.txt") == 3 and not index.documents() and len(index.documents("t")) == 1


def test_many_keys_are_found_at_once():
    with closing(Index(None)) as index:
        keys = [str(number) for number in range(1_300)]
        index.put_vectors({key: np.full(3, float(key), np.float32) for key in keys})
        found = index.vectors([*keys, "none"])
        assert found.keys() == set(keys) and all((found[key] == float(key)).all() for key in keys)


def test_it_stands_beside_the_cache_and_outlives_its_contents(tmp_path):
    with closing(Cache(tmp_path / "calls.sqlite")) as cache, closing(Index.beside(cache)) as index:
        index.own("", document(), ["k"])
        index.put("k", "notes")
        cache.clear()
        assert index.readings("k") == {"k": "notes"} and index.path == tmp_path / "index.sqlite"
    with closing(Cache.temporary()) as cache, closing(Index.beside(cache)) as index:
        assert index.path is None


@pytest.mark.parametrize("fault", ["corrupt", "directory", "locked"])
def test_a_file_that_fails_costs_no_run(tmp_path, fault):
    path, heard = tmp_path / "index.sqlite", []
    other = None
    if fault == "corrupt":
        path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 4_000)
    elif fault == "directory":
        path.mkdir()
    else:
        Index(path).close()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
    with closing(Index(path, warn=heard.append, patience=0.01)) as index:
        index.own("", document(), ["k"])
        index.put("k", "notes")
        assert index.readings("k") == {"k": "notes"} and len(heard) == 1 and str(path) in heard[0]
    if other:
        other.close()


def test_a_list_that_can_not_be_read_is_one_sentence(tmp_path):
    index = Index(tmp_path / "index.sqlite")
    index.close()
    with pytest.raises(ConvMemError, match="CONVMEM_CACHE_DIR"):
        index.documents()
