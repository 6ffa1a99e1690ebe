import json

from tests.cli.conftest import ARCHIVE, QUESTION
from tests.support.reader import read
from tests.support.server import Chat, ScriptedServer

SMALL = ("--set", "window=300", "--set", "stride=300", "--set", "one_call_tokens=0")


def checking(verdict):
    """A model that reads, and gives this verdict on every claim."""

    def reply(request):
        if "Reply with one word" not in request["messages"][-1]["content"]:
            return read(request)
        top = [{"token": word, "logprob": -0.02 if word == verdict else -5.0} for word in ("True", "False", "Unknown")]
        return Chat(verdict, logprobs=[{"token": verdict, "logprob": -0.02, "top_logprobs": top}])

    return reply


def asked(convmem, verdict, *options):
    with ScriptedServer(checking(verdict)) as model:
        return convmem("ask", "archive.txt", QUESTION, "--no-cache", "--model", model.url, *options, *SMALL)


def test_claims_are_in_the_json_when_asked_for(convmem, server):
    assert "claims" not in json.loads(convmem("ask", "archive.txt", QUESTION, "--json", *SMALL).out)
    done = asked(convmem, "True", "--verify", "--json")
    [claim, *_] = json.loads(done.out)["claims"]
    assert set(claim) >= {"text", "verdict", "citations"} and claim["verdict"] == "supported"
    [citation, *_] = claim["citations"]
    assert ARCHIVE[citation["start"] : citation["end"]] == citation["quote"]
    assert "verify" in json.loads(done.out)["usage"]["by_role"]


def test_each_claim_is_marked_in_the_text(convmem):
    assert "✓ supported: " in asked(convmem, "True", "--verify").err
    assert "✗ contradicted: " in asked(convmem, "False", "--verify").err
    unsupported = asked(convmem, "Unknown", "--verify")
    assert "? unsupported: " in unsupported.err and "Keeper77" in unsupported.out


def test_strict_answers_nothing_that_is_not_supported(convmem):
    done = asked(convmem, "Unknown", "--strict", "--set", "preset=paper")
    assert (done.code, done.out.strip()) == (0, "not found")
    assert "Left out" in done.err and "Keeper77" in done.err


def test_an_unknown_verifier_is_an_error_before_anything_is_asked(convmem, server):
    done = convmem("ask", "archive.txt", QUESTION, "--verify", "--verifier", "oracle")
    assert (done.code, server.requests) == (2, []) and "oracle" in done.err


def pairs(home):
    lines = [
        {"premises": [f"Keeper{n} lit the lamp."], "hypothesis": f"Keeper{n + wrong} lit the lamp.",
         "label": "contradiction" if wrong else "entailment", "kind": "wrong name" if wrong else "supported"}
        for n in range(12) for wrong in (0, 1)
    ]  # fmt: skip
    (home / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")


def test_a_calibrated_threshold_is_kept_for_its_verifier(convmem, home, server):
    pairs(home)
    done = convmem("verify", "calibrate", "pairs.jsonl", "--verifier", "quotation", "--json")
    found = json.loads(done.out)
    assert done.code == 0 and found["verifier"] == "quotation"
    assert found["report"]["false_acceptance"]["hits"] == 0 and found["report"]["false_rejection"]["hits"] == 0
    audit = json.loads(convmem("verify", "audit", "pairs.jsonl", "--verifier", "quotation", "--json").out)
    assert audit["threshold"] == found["threshold"]
    assert audit["faithfulness"]["share"] == 1.0 and audit["milliseconds"] > 0
    assert audit["accepted"]["wrong name"]["hits"] == 0 and audit["accepted"]["supported"]["hits"] == 12


def test_the_model_is_audited_through_its_endpoint(convmem, home):
    pairs(home)
    with ScriptedServer(checking("True")) as model:
        done = convmem("verify", "audit", "pairs.jsonl", "--model", model.url, "--n", "8")
        assert len(model.answered) == 8
    assert "false acceptance  100.0%" in done.out and "ms a pair" in done.out
