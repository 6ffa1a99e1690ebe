import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.core import InputError
from convmem.document import Document
from convmem.methods import Facts, method, methods
from convmem.methods.convmem import Config, ConvMem
from tests.support.reading import Words

TEXT = Document.from_text("The keeper of lighthouse 7 was called Ann. " * 400)


def settled(preset="paper", *, logprobs=False, context=None, **settings):
    return Config.preset(preset, **settings).settled(logprobs=logprobs, context=context)


def test_the_papers_numbers():
    paper = settled()
    assert (paper.window, paper.stride, paper.buffer_tokens) == (8_000, 1_600, 8_000)
    assert (paper.temperature, paper.top_p, paper.c_max, paper.max_layers) == (0.7, 0.95, 5, 8)
    assert (paper.kernel, paper.relevance, paper.evidence, paper.overlap) == ("split", "json", "summary", "stride")
    assert (paper.skip, paper.filter, paper.keep_empty, paper.one_call_tokens) == ("on", False, False, 0)


@given(st.integers(5, 20_000))
def test_window_alone_keeps_the_papers_over_scanning(window):
    assert settled(window=window).stride == window // 5
    assert settled("lean", window=window).stride == window // 5


@pytest.mark.parametrize("preset", ["paper", "lean"])
@pytest.mark.parametrize("window", [10, 100, 4_000])
def test_a_stride_beyond_the_window_is_refused(preset, window):
    with pytest.raises(InputError, match="stride"):
        settled(preset, window=window, stride=window + 1)
    assert settled(preset, window=window, stride=window).stride == window


def test_a_stride_beyond_the_window_that_is_chosen_is_refused():
    with pytest.raises(InputError, match="stride"):
        settled("lean", stride=300_000)


@given(st.integers(1, 10_000), st.integers(1, 20_000))
def test_a_small_context_narrows_the_window_and_never_widens_it(window, context):
    config = settled(window=window, context=context)
    assert config.window <= window
    assert 1 <= config.stride <= config.window
    assert config.summary_tokens <= max(1, context // 4)
    if context >= 2_000:
        assert config.window + config.summary_tokens < context


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"kernel": "score", "evidence": "quotes"}, "score"),
        ({"kernel": "split", "evidence": "windows"}, "windows"),
        ({"kernel": "joint", "relevance": "logprob"}, "logprob"),
        ({"relevance_background": 0.9, "relevance_direct": 0.2}, "relevance_background"),
        ({"window": 0}, "window"),
        ({"max_layers": 0}, "max_layers"),
        ({"kernel": "none such"}, "kernel"),
        ({"windwo": 3}, "windwo"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_reason(settings, names):
    with pytest.raises(InputError, match=names):
        settled(**settings)


@pytest.mark.parametrize("settings", [{"relevance": "logprob"}, {"evidence": "windows"}])
def test_what_does_not_go_with_the_model_is_an_input_error_too(settings):
    assert settled("lean", logprobs=True, **settings).kernel == "score"
    with pytest.raises(InputError):
        settled("lean", logprobs=False, **settings)


def test_lean_chooses_by_the_model():
    scoring, other = settled("lean", logprobs=True), settled("lean")
    assert (scoring.kernel, scoring.relevance, scoring.evidence) == ("score", "logprob", "windows")
    assert (other.kernel, other.relevance, other.evidence) == ("joint", "json", "quotes")
    assert scoring.window < 1_000 < other.window
    assert scoring.overlap == other.overlap == "boundary" and scoring.temperature == 0


def test_an_unknown_preset_or_method_names_those_there_are():
    with pytest.raises(InputError, match="paper, lean"):
        Config.preset("fast")
    with pytest.raises(InputError, match="full-context"):
        method("none such")


@pytest.mark.parametrize("name", methods())
def test_every_setting_of_every_method_is_explained(name):
    fields = method(name).Config.model_fields
    assert fields and all(field.description for field in fields.values())
    assert {"paper", "lean"} <= set(method(name).Config.presets)
    assert method(name).summary


@pytest.mark.parametrize("kernel", ["split", "fused", "joint", "score"])
def test_every_kernel_can_be_planned(kernel):
    evidence = "windows" if kernel == "score" else "summary"
    relevance = "logprob" if kernel == "score" else "json"
    config = Config.preset("paper", window=200, kernel=kernel, evidence=evidence, relevance=relevance)
    facts = Facts(Words(), tokens_per_second=(100.0, 10.0))
    plan = ConvMem(config).plan(TEXT, facts)
    per_window = {"split": 6, "fused": 3, "joint": 1, "score": 1}[kernel]
    assert plan.layers[0].calls == plan.windows * per_window
    assert plan.calls == 1 + sum(layer.calls for layer in plan.layers) + plan.channels + 1
    whole = plan.prompt_tokens / 100 + plan.completion_tokens / 10
    at_once = whole / 10 if kernel == "score" else 0.1  # the question is split while windows are read
    assert whole - at_once <= plan.seconds <= whole + 0.1


def test_a_plan_says_what_it_rests_on():
    plan = ConvMem(Config.preset("lean")).plan(Document.from_text("Ann kept it. " * 9_000), Facts(Words()))
    assert any("log-probabilities" in assumption for assumption in plan.assumptions)
    assert plan.seconds is None
