"""What asking would cost: compared, priced, and with the speed that was measured."""

import json

import pytest

from tests.cli.conftest import QUESTION

PRICE = 'price={"prompt": 2.0, "completion": 8.0}'


def plan(convmem, *more):
    return json.loads(convmem("plan", "archive.txt", "Who kept the light?", "--json", *more).out)


def test_ways_to_read_are_compared_and_one_is_recommended(convmem, server):
    compared = plan(convmem)["alternatives"]
    assert [way["name"] for way in compared] == ["lean", "paper", "index", "from the index"]
    assert [way["recommended"] for way in compared].count(True) == 1
    said = convmem("plan", "archive.txt").out
    assert "--preset paper" in said and "* " in said and server.requests == []


def test_another_method_is_compared_with_nothing(convmem, server):
    made = plan(convmem, "--method", "memagent")
    assert (made["alternatives"], made["reason"]) == ([], "")


def test_a_price_is_that_of_the_tokens(convmem, server):
    assert plan(convmem)["cost"] is None
    made = plan(convmem, "--set", PRICE)
    for each in (made, *made["alternatives"]):
        assert each["cost"] == pytest.approx((2 * each["prompt_tokens"] + 8 * each["completion_tokens"]) / 1e6)
    assert "price" in convmem("plan", "archive.txt", "--set", PRICE).out
    wrong = convmem("plan", "archive.txt", "--set", 'price={"prompt": -1}')
    assert wrong.code == 2 and "price" in wrong.err


def test_a_probe_tells_the_speed_and_costs_a_few_calls(convmem, server):
    assert plan(convmem)["seconds"] is None
    assert plan(convmem, "--probe")["seconds"] is not None
    calls = len(server.requests)
    assert 0 < calls <= 5
    assert None not in (plan(convmem)["seconds"], plan(convmem, "--probe")["seconds"])
    assert len(server.requests) == calls


def test_what_earlier_calls_told_of_log_probabilities_is_not_assumed_again(convmem, server):
    limits = ("--set", "one_call_tokens=0")
    assert any("log-probabilities" in each for each in plan(convmem, *limits)["assumptions"])
    assert convmem("ask", "archive.txt", QUESTION, *limits).code == 0
    known = plan(convmem, *limits)
    assert not any("log-probabilities" in each for each in known["assumptions"])
    assert known["layers"][0]["calls"] >= known["windows"]


def test_a_budget_is_planned(convmem, server):
    limits = ("--set", "one_call_tokens=0", "--set", "window=300")
    whole, part = plan(convmem, *limits), plan(convmem, *limits, "--budget", "2000")
    assert part["prompt_tokens"] + part["completion_tokens"] <= 2_000 < whole["prompt_tokens"]
    share = plan(convmem, *limits, "--budget", f"{100 * 2_000 / whole['tokens']:.4f}%")
    assert share["prompt_tokens"] == part["prompt_tokens"]


def test_what_it_is_compared_with_has_no_limit(convmem, server):
    whole, part = plan(convmem), plan(convmem, "--budget", "100")
    assert part["alternatives"] == whole["alternatives"]


def test_a_calibration_is_learned_kept_and_listed(convmem, home):
    assert "No model" in convmem("calibrate", "--list").out
    done = convmem("calibrate", "--model", "sim:recall=0.9", "--windows", "12", "--json")
    made = json.loads(done.out)
    assert (done.code, made["model"]) == (0, "simulated:recall=0.9")
    assert set(made["held_out"]) == {"default", "calibrated"}
    assert set(made["calibration"]) == {"scale", "bias", "fall", "background", "direct"}
    assert json.loads(convmem("calibrate", "--list", "--json").out) == {made["model"]: made["calibration"]}
    assert "scale" in convmem("calibrate", "--list").out


def test_what_cant_be_calibrated_says_why(convmem, home, server):
    done = convmem("calibrate", "--model", "sim:logprobs=off")
    assert done.code == 1 and "log-probabilities" in done.err
    assert convmem("calibrate", "--from", "archive.txt").code == 2
