"""Delayed relevance of built contexts: decided by the order in which the evidence stands."""

import json
from pathlib import Path

import pytest

from convmem.bench import prepare
from convmem.bench.contexts import Recipe
from convmem.bench.delay import delayed_shares
from convmem.bench.placement import Placement
from convmem.cli.main import main
from convmem.document import EstimateTokenizer


@pytest.mark.parametrize(("order", "delayed"), [("forward", 0), ("backward", 3), ("any", None)])
def test_evidence_is_delayed_where_it_stands_before_its_bridge(tmp_path: Path, order, delayed) -> None:
    recipe = Recipe((12,), 4, placement=Placement("early", order))
    source = prepare.read("synthetic:hops=2,3", "auto", None, recipe, 3)
    benchmark = prepare.write(source, recipe, 3, tmp_path / "world", EstimateTokenizer())
    rate = delayed_shares(benchmark)[12]
    assert rate.of == 3 and (delayed is None or rate.hits == delayed)


def test_the_command_prints_the_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = Recipe((12,), 4, placement=Placement("early", "backward"))
    source = prepare.read("synthetic:hops=2", "auto", None, recipe, 2)
    prepare.write(source, recipe, 2, tmp_path / "world", EstimateTokenizer())

    def printed(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["bench", "delay", str(tmp_path / "world"), *options])
        assert not ended.value.code
        return capsys.readouterr().out

    [found] = json.loads(printed("--json"))
    assert (found["docs"], found["questions"], found["delayed"], found["share"]) == (12, 2, 2, 1.0)
    assert "delayed in 2 of 2 questions, 100%" in printed()
