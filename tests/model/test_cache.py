from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Call, Completion, ConvMemError, Message, Sampling, TokenLogprobs, Usage
from convmem.model import Cache, cache_directory

NUMBER = st.floats(allow_nan=False)
COMPLETIONS = st.builds(
    Completion,
    text=st.text(),
    finish=st.sampled_from(["stop", "length", "other"]),
    usage=st.none() | st.builds(Usage, *[st.integers(0, 2**40)] * 3),
    logprobs=st.lists(
        st.builds(TokenLogprobs, st.text(), NUMBER, st.lists(st.tuples(st.text(), NUMBER), max_size=3).map(tuple)),
        max_size=3,
    ).map(tuple),
    reasoning=st.text(),
    seconds=NUMBER,
)
CALLS = st.builds(
    Call,
    role=st.sampled_from(["kernel", "merge"]),
    messages=st.lists(
        st.builds(Message, st.sampled_from(["system", "user"]), st.text(max_size=5)), min_size=1, max_size=2
    ).map(tuple),
    sampling=st.builds(Sampling, st.integers(1, 3), temperature=st.sampled_from([0.0, 0.7])),
    schema=st.none() | st.just({"type": "object"}),
    seed=st.integers(0, 2),
    sample=st.integers(0, 2),
    attempt=st.integers(0, 2),
)
CALL = Call("kernel", (Message("user", "What?"),), Sampling(10))
DONE = Completion("Because.", usage=Usage(7, 3, 2))


@settings(max_examples=50)
@given(COMPLETIONS)
def test_what_is_put_is_what_is_got(completion: Completion) -> None:
    cache = Cache.temporary()
    cache.put("k", completion)
    assert cache.get("k") == completion
    assert cache.get("other") is None
    cache.close()


@given(CALLS, CALLS, st.sampled_from(["", "tenant"]), st.sampled_from(["m", "n"]))
def test_keys_are_equal_exactly_where_the_reply_may_be_shared(a: Call, b: Call, namespace: str, identity: str) -> None:
    same = replace(a, role="", channel="") == replace(b, role="", channel="")
    assert (Cache.key("", "m", a) == Cache.key("", "m", b)) == same
    assert (Cache.key("", "m", a) == Cache.key(namespace, identity, a)) == ((namespace, identity) == ("", "m"))


def test_the_order_of_a_schema_counts() -> None:
    one, other = ({"properties": {name: {} for name in names}} for names in ("ab", "ba"))
    assert Cache.key("", "m", replace(CALL, schema=one)) != Cache.key("", "m", replace(CALL, schema=other))


def test_replies_outlive_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "new" / "c.sqlite"
    first = Cache(path)
    first.put("k", DONE)
    first.close()
    assert Cache(path).get("k") == DONE


WRITER = """
import os, signal, sys
from pathlib import Path
from convmem.core import Completion
from convmem.model import Cache
cache = Cache(Path(sys.argv[1]), warn=lambda text: sys.exit(text))
for number in range(200):
    cache.put(f"{sys.argv[2]}-{number}", Completion(str(number)))
if sys.argv[3] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_share_the_file_and_a_kill_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, end], stderr=subprocess.PIPE)
        for name, end in (("a", "killed"), ("b", "closed"), ("c", "closed"))
    ]
    codes = [(writer.communicate()[1], writer.returncode) for writer in writers]
    assert codes == [(b"", -signal.SIGKILL), (b"", 0), (b"", 0)]
    cache = Cache(path)
    for name in "abc":
        assert [cache.get(f"{name}-{number}") for number in range(200)] == [Completion(str(n)) for n in range(200)]
    assert cache.info().entries == 600


class Warnings(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


def works_in_memory(cache: Cache) -> bool:
    cache.put("in memory", DONE)
    cache.put("and again", DONE)
    return cache.get("in memory") == cache.get("and again") == DONE


def test_a_locked_file_can_be_read_and_the_run_goes_on(tmp_path: Path) -> None:
    path, warnings = tmp_path / "c.sqlite", Warnings()
    cache = Cache(path, warn=warnings, patience=0.01)
    cache.put("before", DONE)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert works_in_memory(cache)
    assert cache.get("before") == DONE
    assert len(warnings) == 1 and "locked" in warnings[0] and str(path) in warnings[0]
    with pytest.raises(ConvMemError):
        cache.clear()
    other.close()


def test_a_file_that_is_no_cache_is_set_aside_by_name(tmp_path: Path) -> None:
    path, warnings = tmp_path / "c.sqlite", Warnings()
    for number in (1, 2):
        path.write_bytes(b"not a database, but long enough to be looked at" * 50)
        cache = Cache(path, warn=warnings)
        cache.put("k", DONE)
        cache.close()
        assert Cache(path).get("k") == DONE
        aside = tmp_path / f"c.sqlite.corrupt-{number}"
        assert aside.read_bytes().startswith(b"not a database")
        assert len(warnings) == number and aside.name in warnings[-1]
        for file in tmp_path.glob("c.sqlite*"):
            if "corrupt" not in file.name:
                file.unlink()


def test_a_file_that_breaks_inside_is_left_and_can_be_cleared(tmp_path: Path) -> None:
    path, warnings = tmp_path / "c.sqlite", Warnings()
    cache = Cache(path)
    for number in range(200):
        cache.put(str(number), Completion("x" * 500))
    cache.close()
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))
    cache = Cache(path, warn=warnings)
    assert [cache.get(str(number)) for number in range(200)].count(None) > 0
    assert works_in_memory(cache)
    assert len(warnings) == 1 and "cache clear" in warnings[0]
    cache.close()
    healed = Cache(path)
    healed.clear()
    healed.put("k", DONE)
    assert (healed.get("k"), healed.info().entries) == (DONE, 1)


@pytest.mark.parametrize("name", ["file/c.sqlite", "directory"])
def test_a_place_where_no_file_can_be_is_said_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()
    warnings = Warnings()
    cache = Cache(tmp_path / name, warn=warnings)
    assert works_in_memory(cache)
    assert len(warnings) == 1 and "CONVMEM_CACHE_DIR" in warnings[0]
    with pytest.raises(ConvMemError):
        cache.info()


FULL = """
import resource, signal, sys
from pathlib import Path
from convmem.core import Completion
from convmem.model import Cache
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
cache = Cache(Path(sys.argv[1]), warn=print)
cache.put("early", Completion("early"))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for number in range(50):
    cache.put(str(number), Completion("x" * 10_000))
assert all(cache.get(str(number)) for number in range(50))
assert cache.get("early") == Completion("early")
"""


def test_a_full_disk_is_said_once_and_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    ended = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert ended.stdout.count("not kept") == 1
    assert Cache(path).get("early") == Completion("early")


def test_a_reply_that_was_damaged_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    cache = Cache(path)
    cache.put("k", DONE)
    cache.close()
    db = sqlite3.connect(path)
    damaged: list[Any] = ["{", "null", "[]", '{"text": 1}']
    for completion in damaged:
        db.execute("UPDATE replies SET completion = ?", (completion,))
        db.commit()
        assert Cache(path).get("k") is None
    db.close()


def test_clearing_forgets_and_gives_the_space_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    for number in range(100):
        cache.put(str(number), Completion("x" * 5000))
    before = cache.info()
    cache.clear()
    after = cache.info()
    assert (before.entries, after.entries) == (100, 0)
    assert after.bytes < before.bytes / 4
    assert cache.get("1") is None


def test_a_temporary_cache_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path))
    cache = Cache.temporary()
    cache.put("k", DONE)
    assert cache.get("k") == DONE
    assert list(tmp_path.iterdir()) == []


def test_the_environment_moves_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "here"))
    assert cache_directory() == tmp_path / "here"
    assert Cache.shared().info().path == tmp_path / "here" / "calls.sqlite"
