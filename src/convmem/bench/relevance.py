"""Learns how a model's scores become a probability of relevance, and how good that is on questions it had not seen.

A logistic regression in log-odds, drawn towards the default calibration: convex, and the same every time. Knows scores,
places and labels; knows no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convmem.bench.labelled import Judged, Labels
from convmem.bench.statistics import Estimate, mean
from convmem.core import ConvMemError
from convmem.memory.calibration import EXPECTED, Calibration, Numbers, evident

MISSED = 0.05
"""The share of windows with evidence whose score is below what counts as background."""
MISTAKEN = 0.05
"""The share of windows without evidence whose score is that of direct evidence."""


def fit(judged: Sequence[Judged]) -> Calibration:
    """The calibration that explains best which windows hold evidence, drawn towards the default one.

    Raises ConvMemError where no window holds evidence, or every one does.
    """
    holds = np.concatenate([each.holds for each in judged] or [np.zeros(0, bool)])
    if not holds.any() or holds.all():
        raise ConvMemError("There is nothing to learn from: some of the windows must hold evidence, and others not.")
    scores = np.concatenate([each.scores for each in judged])
    said = evident(scores)
    height = np.concatenate([np.log(each.count / each.places) for each in judged])
    chance = np.concatenate([np.full(each.scores.size, np.log(EXPECTED / each.count)) for each in judged])
    choice = np.concatenate([np.full(each.scores.size, -np.log(each.share)) for each in judged])
    one = np.ones_like(said)
    _, scale, fall = _regress(np.stack([one, said, height], 1), holds, chance + choice, np.array([0.0, 1.0, 1.0]))
    scale, fall = max(0.0, float(scale)), max(0.0, float(fall))
    # The prior adds up to EXPECTED windows whatever ``fall`` is, so what remains is up to the bias.
    prior = np.concatenate([_prior(each, Calibration(fall=fall)) for each in judged])
    (bias,) = _regress(one[:, None], holds, prior + scale * said + choice, np.array([0.0]))
    background = float(np.quantile(scores[holds], MISSED))
    direct = max(background, float(np.quantile(scores[~holds], 1 - MISTAKEN)))
    return Calibration(scale, float(bias), fall, background, direct)


def _prior(judged: Judged, calibration: Calibration) -> Numbers:
    prior: Numbers = calibration.prior(np.arange(1.0, judged.count + 1))[judged.places.astype(int) - 1]
    return prior


def _regress(features: Numbers, labels: Labels, offset: Numbers, centre: Numbers) -> Numbers:
    """Logistic regression with a normal prior of variance 1 around ``centre``, by Newton's method with halved steps.

    ``features`` has the shape (observations, coefficients); ``offset`` is added to the log-odds.
    """

    def loss(at: Numbers) -> float:
        odds = features @ at + offset
        return float(np.sum(np.logaddexp(0, odds) - labels * odds) + np.sum((at - centre) ** 2) / 2)

    at = centre
    for _ in range(100):
        p = _sigmoid(features @ at + offset)
        gradient = features.T @ (p - labels) + at - centre
        curvature = (features * (p * (1 - p))[:, None]).T @ features + np.eye(len(at))
        step = np.linalg.solve(curvature, gradient)
        while loss(at - step) > loss(at):
            step = step / 2
        at = at - step
        if np.abs(step).max() < 1e-10:
            break
    return at


def _sigmoid(odds: Numbers) -> Numbers:
    p: Numbers = np.exp(-np.logaddexp(0, -odds))
    return p


@dataclass(frozen=True, slots=True)
class Quality:
    """On questions that the fit had not seen: AUC within a question, and the log-loss of a window, over questions."""

    auc: Estimate
    log_loss: Estimate


def quality(judged: Sequence[Judged]) -> dict[str, Quality]:
    """How good the default and the learned calibration are, each question judged by a fit to the other half of them."""
    learned = [fit(judged[1::2]), fit(judged[0::2])]
    return {
        "default": _quality(judged, [Calibration()] * len(judged)),
        "calibrated": _quality(judged, [learned[number % 2] for number in range(len(judged))]),
    }


def _quality(judged: Sequence[Judged], calibrations: Sequence[Calibration]) -> Quality:
    aucs, losses = [], []
    for each, calibration in zip(judged, calibrations, strict=True):
        odds = _prior(each, calibration) + calibration.said(each.scores)
        aucs.append(auc(odds, each.holds))
        chosen = odds - np.log(each.share)
        losses.append(float(np.mean(np.logaddexp(0, chosen) - each.holds * chosen)))
    return Quality(mean(np.array(aucs)), mean(np.array(losses)))


def auc(scores: Numbers, holds: Labels) -> float:
    """The probability that a window with evidence scores above one without; NaN where one kind is missing."""
    if not holds.any() or holds.all():
        return float("nan")
    above = scores[holds][:, None] - scores[~holds][None, :]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def as_json(quality: Quality) -> dict[str, Any]:
    """Plain values: a mean and its 95% interval for each figure."""
    return {
        name: {"mean": each.mean, "low": each.low, "high": each.high}
        for name, each in (("auc", quality.auc), ("log_loss", quality.log_loss))
    }
