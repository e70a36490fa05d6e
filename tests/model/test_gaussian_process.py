"""The Gaussian process against finite differences, brute force and functions whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from trimtab.model.fit import HyperPrior, fit_among, fit_hyper, objective, sharpest
from trimtab.model.gaussian_process import Hyper, LossScale, Posterior, classifier, covariance
from trimtab.search.acquisition import log_expected_improvement


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def test_gradient_is_that_of_the_value(rng: np.random.Generator) -> None:
    x, y, v = rng.random((25, 5)), rng.standard_normal(25), rng.uniform(0.001, 0.1, 25)
    prior = HyperPrior.of(5)
    for _ in range(3):
        theta = prior.centre(5) + 0.5 * rng.standard_normal(12)
        numeric = optimize.approx_fprime(theta, lambda t: objective(t, x, y, v, prior)[0], 1e-6)
        assert objective(theta, x, y, v, prior)[1] == pytest.approx(numeric, rel=1e-4, abs=1e-4)


def test_posterior_equals_the_textbook_formula(rng: np.random.Generator) -> None:
    """Against a direct inversion of the covariance with the kernel written out pair by pair."""
    hyper = Hyper(np.log([3.0, 0.5]), np.log([0.4, 0.2]), math.log(0.7), math.log(0.01))
    x, at, y, v = rng.random((8, 2)), rng.random((3, 2)), rng.standard_normal(8), np.full(8, 0.02)

    def k(p: np.ndarray, q: np.ndarray) -> float:
        r = math.sqrt(float((hyper.relevance * (p - q) ** 2).sum()))
        matern = (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)
        waves = sum(np.cos(w * np.pi * p) * np.cos(w * np.pi * q) / w**2 for w in range(1, 6))
        return float(hyper.signal * matern + (hyper.main * waves).sum())

    full = np.array([[k(p, q) for q in x] for p in x]) + np.diag(v + hyper.nugget + 1e-6)
    inverse = np.linalg.inv(full)
    centre = inverse.sum(axis=0) @ y / inverse.sum()
    cross = np.array([[k(p, q) for q in x] for p in at])
    mean, sd = Posterior(x, y, v, hyper).predict(at)
    assert mean == pytest.approx(centre + cross @ inverse @ (y - centre))
    assert sd**2 == pytest.approx(np.array([k(p, p) for p in at]) - np.einsum("ij,jk,ik->i", cross, inverse, cross))


def test_left_out_density_is_that_of_the_prediction_without_the_point(rng: np.random.Generator) -> None:
    """Against processes made anew without each point; the mean is held, so measurements that average to it."""
    hyper = Hyper(np.log([3.0, 0.5]), np.log([0.4, 0.2]), math.log(0.7), math.log(0.01))
    x, y, v = rng.random((12, 2)), rng.standard_normal(12), np.full(12, 0.02)
    whole = Posterior(x, y, v, hyper)
    densities = []
    for i in range(12):
        others = np.arange(12) != i
        rest = Posterior(x[others], y[others] - whole.mean, v[others], hyper)
        noise = v[i] + hyper.nugget + 1e-6
        centred = rest.predict(x[[i]])[0][0] - rest.mean * (1.0 - _reach(rest, x[i]))
        sd = math.sqrt(rest.predict(x[[i]])[1][0] ** 2 + noise)
        densities.append(stats.norm.logpdf(y[i] - whole.mean, centred, sd) + 0.5 * math.log(2 * math.pi))
    assert whole.left_out_density() == pytest.approx(np.mean(densities), abs=1e-6)


def _reach(process: Posterior, point: np.ndarray) -> float:
    """What the process predicts at `point` for measurements that are all 1 when its mean is 0."""
    x = process._x
    k = process.hyper.covariance(x, x) + np.diag(np.full(len(x), 0.02 + process.hyper.nugget + 1e-6))
    return float(process.hyper.covariance(point[None, :], x)[0] @ np.linalg.solve(k, np.ones(len(x))))


def test_interactions_are_left_to_a_model_without_main_effects(rng: np.random.Generator) -> None:
    """Chosen by what is predicted of points left out: products of two features against a sum of effects."""
    priors = HyperPrior.of(6), HyperPrior.anisotropic(6)
    x = rng.random((60, 6))
    centred = 2 * x - 1
    product = centred[:, 0] * centred[:, 1] + centred[:, 2] * centred[:, 3]
    total = np.sin(6 * x) @ [2.0, -1.0, 0.5, 1.0, 0.7, 0.3]
    for y, has_main in ((product, False), (total, True)):
        hyper = fit_hyper(x, (y - y.mean()) / y.std(), np.full(60, 1e-3), priors=priors)
        assert hyper.has_main is has_main


def test_finds_the_features_that_matter(rng: np.random.Generator) -> None:
    x = rng.random((60, 20))
    y = np.sin(5 * x[:, 3]) - 2 * x[:, 11] + 0.05 * rng.standard_normal(60)
    hyper = fit_hyper(x, (y - y.mean()) / y.std(), np.full(60, 0.003))
    effect = hyper.main + hyper.signal * hyper.relevance
    assert set(np.argsort(-effect)[:2]) == {3, 11}


def test_takes_the_prior_of_the_better_fit(rng: np.random.Generator) -> None:
    """Ridges in two of five features, which the usual prior calls noise; a plane is as smooth as it expects."""
    usual = HyperPrior.of(5)
    rough = replace(usual, relevance_at=usual.relevance_at + 4.0)
    x = rng.random((60, 5))
    for y, is_rough in ((np.sin(12 * x[:, 0]) * np.sin(12 * x[:, 1]), True), (x @ [2.0, -1.0, 0.5, 0.0, 0.0], False)):
        data = x, (y - y.mean()) / y.std(), np.full(60, 1e-3)
        smooth, free = fit_hyper(*data), fit_hyper(*data, priors=(usual, rough))
        assert bool(np.median(free.log_relevance) > np.median(smooth.log_relevance) + 1.0) is is_rough


def test_a_fit_that_goes_on_is_as_good_as_one_from_the_start(rng: np.random.Generator) -> None:
    """Ten steps from the hyper-parameters of 130 points against forty from the prior's centre, told 20 points more."""
    prior = HyperPrior.of(6)
    x = rng.random((150, 6))
    y = np.sin(5 * x[:, 3]) - 2 * x[:, 1] * x[:, 2] + 0.05 * rng.standard_normal(150)
    y, v = (y - y.mean()) / y.std(), np.full(150, 0.003)
    before, chosen = fit_among(x[:130], y[:130], v[:130], (prior,))
    assert chosen is prior
    on, _ = fit_among(x, y, v, (prior,), max_steps=10, start=before)
    anew, _ = fit_among(x, y, v, (prior,))
    costs = [objective(hyper.vector, x, y, v, prior)[0] for hyper in (on, anew)]
    assert costs[0] < costs[1] + 0.5


def test_predicts_an_additive_function_from_few_points(rng: np.random.Generator) -> None:
    """40 points in 20 dimensions: a process without main effects explains next to nothing there."""
    x, at = rng.random((40, 20)), rng.random((200, 20))

    def truth(x: np.ndarray) -> np.ndarray:
        return np.asarray(-2 * x[:, 0] + x[:, 1] + 3 * (x[:, 2] - 0.6) ** 2)

    y = truth(x)
    middle, spread = y.mean(), y.std()
    posterior = Posterior(
        x, (y - middle) / spread, np.full(40, 1e-3), fit_hyper(x, (y - middle) / spread, np.zeros(40))
    )
    rest = truth(at) - (middle + spread * posterior.predict_mean(at))
    assert 1 - rest.var() / truth(at).var() > 0.9


def test_noise_that_is_known_is_not_followed() -> None:
    x, y = np.array([[0.5], [0.5]]), np.array([1.0, -1.0])
    hyper = Hyper(np.zeros(1), np.full(1, -9.0), 0.0, -9.0)
    mean, _ = Posterior(x, y, np.array([0.01, 1.0]), hyper).predict(x[:1])
    assert mean[0] == pytest.approx(1.0, abs=0.1)


def test_hyper_parameters_survive_constant_losses() -> None:
    x = np.random.default_rng(1).random((10, 3))
    hyper = fit_hyper(x, np.zeros(10), np.zeros(10))
    mean, sd = Posterior(x, np.zeros(10), np.zeros(10), hyper).predict(x)
    assert np.isfinite(mean).all()
    assert np.isfinite(sd).all()


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (-1.0, 0.5), (2.0, 0.7), (1.5, 0.4)])
def test_expected_improvement_is_the_integral(mean: float, sd: float) -> None:
    value, _ = integrate.quad(lambda f: max(0.5 - f, 0.0) * stats.norm.pdf(f, mean, sd), mean - 12 * sd, 0.5)
    found = log_expected_improvement(np.array([mean]), np.array([sd]), 0.5)
    assert found[0] == pytest.approx(math.log(value), rel=1e-6)


def test_expected_improvement_has_no_flat_end() -> None:
    """Far from the incumbent plain EI underflows to 0; its logarithm still tells the better point."""
    mean = np.array([0.5, 2.0, 10.0, 60.0, 1e3, 1e5, 1e7, 1e9])
    found = log_expected_improvement(mean, np.ones(8), 0.0)
    assert np.isfinite(found).all()
    assert (np.diff(found) < 0).all()


def labelled(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points in five dimensions; those with x0 + x1 > 1.2 failed."""
    x = rng.random((n, 5))
    return x, (x[:, 0] + x[:, 1] <= 1.2).astype(float)


def test_classifier_draws_a_cliff_and_not_a_ramp(rng: np.random.Generator) -> None:
    x, good = labelled(80, rng)
    shape = fit_hyper(x, good, np.zeros(80))
    log_probability, _ = classifier(x, good, 1 - good, shape, sharpest(x, good, 1 - good, shape))
    at, truth = labelled(500, rng)
    clear = np.abs(at[:, 0] + at[:, 1] - 1.2) > 0.2
    found = np.exp(log_probability(at))
    assert (found[clear & (truth == 1)] > 0.5).mean() > 0.97
    assert (found[clear & (truth == 0)] < 0.1).mean() > 0.97


def test_classifier_believes_what_fails_again_and_again() -> None:
    x = np.array([[0.2], [0.8]])
    shape = Hyper(np.zeros(1), np.zeros(1), 0.0, -4.0)
    once, often = (
        classifier(x, np.array([times, 0.0]), np.array([0.0, times]), shape, 3.0)[0](x) for times in (1.0, 9.0)
    )
    assert often[1] < once[1] < math.log(0.5)
    assert often[0] > once[0] > math.log(0.5)


def test_classifier_is_at_its_mode(rng: np.random.Generator) -> None:
    """GPML eq. 3.17: at the mode the latent is the covariance times the slope of the log likelihood."""
    x, good = labelled(30, rng)
    shape = Hyper(np.zeros(5), np.zeros(5), 0.0, -4.0)
    share = np.exp(classifier(x, good, 1 - good, shape, 4.0)[0](x))
    latent = np.log(share / (1 - share))
    assert latent == pytest.approx(1.0 + 16.0 * covariance(x, x, shape) @ (good - share), abs=1e-2)


def test_scale_keeps_order_and_tames_the_worst() -> None:
    losses = np.array([-0.5, -0.4, -0.1, 0.0, 0.1, 2.0, 6.0])
    scaled = LossScale.of(losses).forward(losses)
    assert (np.diff(scaled) > 0).all()
    assert scaled.std() == pytest.approx(1.0)
    assert scaled[-1] - scaled[-2] < scaled[3] - scaled[0]


def test_scale_of_noise_is_its_slope() -> None:
    losses = np.array([-0.5, -0.2, 0.0, 0.3, 4.0])
    scale = LossScale.of(losses)
    step = 1e-6
    slope = (scale.forward(losses + step) - scale.forward(losses - step)) / (2 * step)
    assert scale.variance(losses, np.full(5, 0.1)) == pytest.approx((0.1 * slope) ** 2, rel=1e-4)


def test_scale_of_equal_losses_is_finite() -> None:
    losses = np.zeros(4)
    scale = LossScale.of(losses)
    assert np.isfinite(scale.forward(losses)).all()
    assert np.isfinite(scale.variance(losses, np.full(4, 0.1))).all()


def test_a_grown_factor_is_the_one_computed_anew(rng: np.random.Generator) -> None:
    x, at, y, v = rng.random((30, 3)), rng.random((5, 3)), rng.standard_normal(30), rng.uniform(0.01, 0.1, 30)
    hyper = Hyper(np.log([3.0, 0.5, 1.0]), np.log([0.4, 0.2, 0.1]), math.log(0.7), math.log(0.01))
    grown = Posterior(x[:20], y[:20], v[:20], hyper)
    for n in (21, 25, 30):
        grown = Posterior(x[:n], y[:n], v[:n], hyper, grown)
    whole = Posterior(x, y, v, hyper)
    for found, expected in zip(grown.predict(at), whole.predict(at), strict=True):
        assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
def test_drawn_functions_have_the_moments_of_the_posterior(rng: np.random.Generator) -> None:
    x, at, y = rng.random((6, 2)), rng.random((4, 2)), rng.standard_normal(6)
    hyper = Hyper(np.log([3.0, 0.5]), np.log([0.4, 0.2]), math.log(0.7), math.log(0.01))
    posterior = Posterior(x, y, np.full(6, 0.02), hyper)
    draws = np.array([posterior.draw(at, rng) for _ in range(3000)])
    mean, sd = posterior.predict(at)
    assert draws.mean(axis=0) == pytest.approx(mean, abs=0.08)
    assert draws.std(axis=0) == pytest.approx(sd, rel=0.06)
