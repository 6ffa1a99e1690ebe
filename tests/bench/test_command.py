"""``convmem bench`` as a person uses it: build, run, resume, and what is said when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.bench import convmem, hotpot, write

SIM = "sim:recall=1,foresight=1,dilution=0,noise=0"


def build(out: Path, *more: object) -> int:
    return convmem("bench", "build", "--dataset", "synthetic:hops=2", "--docs", "12", "--n", 2, "--out", out, *more)


def run(built: Path, out: Path, *more: object) -> int:
    return convmem(
        "bench", "run", built, "--methods", "convmem:paper,full-context", "--model", SIM, "--out", out, *more
    )


def test_build_run_and_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built, results = tmp_path / "built", tmp_path / "results"
    assert build(built) == 0
    assert run(built, results, "--seeds", "1,2") == 0
    said = capsys.readouterr()
    assert "2 questions of synthetic, 2 contexts" in said.err
    assert "8 new rows (8 answered)" in said.err
    rows = [json.loads(line) for line in (results / "rows.jsonl").read_text("utf-8").splitlines()]
    assert [row["scores"]["em"] for row in rows] == [1] * 8
    assert run(built, results, "--seeds", "1,2,3", "--n", "1") == 0
    assert "2 new rows" in capsys.readouterr().err
    manifest = json.loads((results / "manifest.json").read_bytes())
    assert "--seeds 1,2 " in manifest["commands"][0]["command"] + " "
    assert manifest["data"]["synthetic"]["source"]["dataset"] == "synthetic:hops=2"


def test_equal_commands_build_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert build(tmp_path / name, "--seed", 5, "--placement", "late") == 0
    contents = [
        {path.name: path.read_bytes() for path in sorted((tmp_path / name).rglob("*")) if path.is_file()}
        for name in ("one", "two")
    ]
    assert contents[0] == contents[1]


def test_a_dataset_of_ones_own_and_its_names_replaced(tmp_path: Path) -> None:
    records = [hotpot(), hotpot(_id="h2", question="Who founded Ost?", answer="Ida Venn")]
    data = write(tmp_path / "own.json", records)
    for more in ((), ("--rename",)):
        out = tmp_path / f"built{len(more)}"
        assert convmem("bench", "build", "--dataset", data, "--docs", "3", "--out", out, "-q", *more) == 0
    manifests = [json.loads((tmp_path / f"built{n}" / "manifest.json").read_bytes()) for n in (0, 1)]
    assert [manifest["dataset"] for manifest in manifests] == ["own", "own-renamed"]
    assert manifests[0]["cases"][0]["answers"] == ["Brell"]
    assert manifests[1]["cases"][0]["answers"] != ["Brell"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["build", "--dataset", "none.json", "--out", "{}"], "none.json"),
        (["build", "--dataset", "synthetic:hops=99", "--out", "{}"], "synthetic"),
        (["build", "--dataset", "synthetic", "--docs", "many", "--out", "{}"], "--docs"),
        (["build", "--dataset", "synthetic", "--filter", "best-of-2", "--out", "{}"], "--model"),
        (["run", "{}/none", "--methods", "convmem", "--model", SIM, "--out", "{}/r"], "bench build"),
        (["run", "{}/b", "--methods", "nothing", "--model", SIM, "--out", "{}/r"], "nothing"),
        (["run", "{}/b", "--methods", "convmem", "--model", "sim:recal=1", "--out", "{}/r"], "recal"),
        (["run", "{}/b", "--methods", "convmem", "--model", SIM, "--out", "{}/b"], "something other"),
        (["run", "{}/b", "--methods", "convmem", "--model", SIM, "--out", "{}/r", "--set", "window"], "KEY=VALUE"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    build(tmp_path / "b", "-q")
    capsys.readouterr()
    assert convmem("bench", *(argument.format(tmp_path) for argument in arguments)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not (tmp_path / "r").exists()
