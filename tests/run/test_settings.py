"""Limits as people write them."""

import pytest
from pydantic import ValidationError

from convmem.run import RunSettings

BEYOND = "9" * 400
"""More than any number of the machine's."""


@pytest.mark.parametrize(
    ("written", "tokens"), [("50k", 50_000), ("1.5M", 1_500_000), ("50,000", 50_000), (7, 7), ("7", 7), (None, None)]
)
def test_a_budget_in_tokens(written, tokens):
    assert RunSettings(budget=written).budget == tokens


def test_a_budget_in_percent_is_of_the_document():
    share = RunSettings(budget="2.5%")
    assert share.budget is None and share.of(200_000).budget == 5_000
    assert share.of(1).budget == 1
    assert share.model_copy(update={"budget": 30}).of(200_000).budget == 30
    assert RunSettings(budget=9).of(200_000).budget == 9


@pytest.mark.parametrize(("written", "seconds"), [("30s", 30), ("2m", 120), ("1.5h", 5_400), (90, 90), ("0.5", 0.5)])
def test_a_deadline(written, seconds):
    assert RunSettings(deadline=written).deadline == seconds


@pytest.mark.parametrize(
    "limits",
    [{"budget": "much"}, {"budget": "0%"}, {"budget": "-5"}, {"budget": "5 %%"}, {"budget": ""}, {"budget": "1.5.2k"},
     {"budget": BEYOND}, {"budget": BEYOND + "k"}, {"budget": BEYOND + "%"}, {"budget": "9" * 308 + "%"},
     {"deadline": "soon"}, {"deadline": "0s"}, {"deadline": "-1"}, {"deadline": BEYOND}],
)  # fmt: skip
def test_what_is_no_limit_is_refused(limits):
    with pytest.raises(ValidationError):
        RunSettings(**limits)
