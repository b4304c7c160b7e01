"""The optimum on everything that is published, walks that reach it, and the mean of all models."""

import naive
import numpy as np
import pytest
from helpers import learning_tree, simulation

from golfsim.core.errors import UserError
from golfsim.learning import closed_form, lambda_choice
from golfsim.learning.closed_form import FITS
from golfsim.learning.lambda_choice import GRID, SHRINKS
from golfsim.protocol import moments
from protocols.data_perturbation import DataPerturbation
from protocols.optimum import LEARNED

DATA = {"set": "random", "train": 60, "test": 30, "scale": ["minmax", "l1"]}
PEERS = {"name": "peers", "use": "uniform"}
PUBLISHED = {"name": "published", "use": "data_perturbation"}
BEST = {"name": "best", "use": "optimum", "records": "published", "lambda": 0.01}
WALK = {"name": "walk", "use": "random_walk", "peers": "peers", "records": "published", "lambda": 0.01}
GOLF = {"name": "golf", "use": "golf", "peers": "peers", "records": "published", "lambda": 0.01}


def run(*layers, cycles=5, metrics=(), epsilon=20.0, **tables):
    observe = {"every": 1, "nodes": "all", "metrics": list(metrics)}
    given = {"data": DATA, "nodes": {"records": 1}, "cycles": cycles, "observe": observe} | tables
    return simulation(learning_tree(PEERS, PUBLISHED | {"epsilon": epsilon}, *layers, **given))


def ended(*layers, **tables):
    made = run(*layers, **tables)
    for _ in made:
        pass
    return made


def logged(made, layer, metric):
    rows = made.log.frame()
    return rows[(rows["layer"] == layer) & (rows["metric"] == metric)]["value"].to_numpy()


def test_the_optimum_is_that_of_all_published_records():
    made = ended(BEST)
    z = made.layer("published").z.astype(np.float64)
    _, least = naive.least_objective(z, 0.01, "pegasos", sweeps=300)
    w = made.layer("best").w[0, 0].astype(np.float64)
    assert np.maximum(1 - z @ w, 0).mean() + 0.005 * w @ w <= least * 1.002
    assert (logged(made, "best", "records") == 60).all()


def test_a_model_is_fitted_again_only_when_records_have_changed():
    assert ended(BEST).layer("best").fits[0] == 1
    nodes = {"records": 4, "arrival": {"start": 0.5, "rate": 1.0}}
    made = ended(BEST, nodes=nodes)
    assert made.layer("best").fits[0] == 3  # in cycles 1, 2 and 3 records are added


def test_its_guarantee_is_that_of_the_records():
    made = run(BEST, {**BEST, "name": "raw_best", "records": "raw"})
    assert made.layer("best").guarantee().epsilon == 20.0
    assert made.layer("raw_best").guarantee().epsilon is None


def test_the_average_of_a_walk_is_that_of_its_last_models():
    made = run(WALK | {"average": "second-half", "hops": 1}, cycles=21)
    walk, seen = made.layer("walk"), []
    for _ in made:
        seen.append(walk.w[0].copy())
        np.testing.assert_allclose(
            walk.models(np.zeros(1, np.int32))[0], naive.tail_average(seen), rtol=1e-5, atol=1e-6
        )
    assert len({model.tobytes() for model in seen}) > 10


def test_a_walk_that_starts_afresh_averages_from_there_on():
    layer = WALK | {"average": "second-half", "restart": "afresh"}
    made = run(layer, cycles=40, transport={"loss": 0.5})
    walk = made.layer("walk")
    for _ in made:
        if walk.age[0] == 0:
            assert not walk.averaged[0]
        assert walk.averaged[0] == walk.age[0]


def test_an_offset_shortens_the_first_steps():
    made = run(WALK | {"offset": 7.0, "path": "tour", "hops": 1}, cycles=12)
    walk, z, w = made.layer("walk"), None, np.zeros(2)
    for _ in made:
        z = made.layer("published").z.astype(np.float64)
        node = np.flatnonzero([np.allclose(walk.w[0, 0], step(w, one, walk.age[0] + 7), atol=1e-4) for one in z])
        assert node.size  # the update is that of some record, with t + 7 in the place of t
        w = walk.w[0, 0].astype(np.float64)


def step(w, z, t):
    return naive.pegasos(w, z, 1, t, 0.01)


def test_the_offset_of_published_records_is_their_mean_square_over_lambda():
    made = ended(WALK | {"offset": "published"})
    z = made.layer("published").z.astype(np.float64)
    assert made.layer("walk").offset == pytest.approx((z**2).sum(axis=1).mean() / 0.01, rel=1e-5)


def test_the_length_of_private_records_is_not_used():
    with pytest.raises(UserError, match="not published"):
        ended(WALK | {"offset": "published", "records": "raw"})
    with pytest.raises(UserError, match="the learner “mean” has none"):
        ended(WALK | {"offset": 1.0, "learner": "mean"})


def test_an_averaged_walk_with_an_offset_comes_closer_to_the_optimum_on_noisy_records():
    walk = WALK | {"hops": 40, "lambda": 1e-4}
    near = walk | {"name": "near", "average": "second-half", "offset": "published"}
    made = ended(walk, near, cycles=200, metrics=["optimum"], epsilon=1.0)
    assert logged(made, "near", "distance.mean")[-1] < logged(made, "walk", "distance.mean")[-1] / 2


# Learners in closed form

LABELLED = PUBLISHED | {"mode": "label+features"}
SEVEN = {"set": "segmentation", "train": 200, "test": 60, "scale": ["minmax", "l1"], "bounds": "train"}


def chosen_by(learner, published=LABELLED, epsilon=20.0, lam=1e-4, shrink=None, threads=1, **tables):
    """A run of the optimum on what a layer publishes, or on raw records."""
    layers = [published | {"epsilon": epsilon}] if published else []
    records = "published" if published else "raw"
    layers.append({"name": "best", "use": "optimum", "records": records, "learner": learner, "lambda": lam})
    layers[-1] |= {} if shrink is None else {"shrink": shrink}
    observe = {"every": 1, "nodes": "all"}
    given = {"data": SEVEN, "nodes": {"records": 1}, "cycles": 2, "observe": observe} | tables
    made = simulation(learning_tree(*layers, **given), threads=threads)
    for _ in made:
        pass
    return made


@pytest.mark.parametrize("fit", [closed_form.centroid, closed_form.lda])
def test_a_model_in_closed_form_is_that_of_the_moments_of_all_nodes(fit):
    made = chosen_by(fit.__name__)
    best, records = made.layer("best"), made.layer("published")
    numbers = records.values(made.world, np.arange(200, dtype=np.int32), fit is closed_form.lda).sum(axis=0)
    w = fit(numbers, 7, records.features, closed_form.Settings(records.precision()))
    assert np.hstack([best.w[0], best.bias[0][:, None]]) == pytest.approx(w, rel=1e-5, abs=1e-7)
    x = made.raw.rows.x[:9]
    assert best.scores(np.zeros(1, np.int32), x)[:, 0] == pytest.approx(x @ w[:, :-1].T + w[:, -1], rel=1e-3, abs=1e-3)
    assert best.fits.tolist() == [1]
    assert "ε = 20 per record" in str(best.guarantee())


@pytest.mark.parametrize("learner", ["centroid", "lda", "best"])
def test_threads_and_chunks_do_not_change_a_model_in_closed_form(monkeypatch, learner):
    found = []
    for threads, room in ((1, 1 << 25), (2, 1 << 25), (2, 20_000)):
        monkeypatch.setattr(moments, "ROOM", room)
        best = chosen_by(learner, threads=threads).layer("best")
        found.append(best.w.tobytes() + best.bias.tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("published", [PUBLISHED, PUBLISHED | {"mode": "joint", "norm": "l2"}])
def test_class_means_need_the_number_of_records_per_class(published):
    data = SEVEN | {"scale": ["minmax", "l2"]} if "norm" in published else DATA
    with pytest.raises(UserError, match="needs class means") as caught:
        chosen_by("centroid", published, data=data)
    assert caught.value.key == "best.learner"
    assert "label+features" in caught.value.hint
    assert "sampled" in caught.value.hint
    made = chosen_by("lda", published, data=data)
    assert made.layer("best").w.any()
    assert not made.layer("best").bias.any()


def test_records_without_moments_are_refused(monkeypatch):
    monkeypatch.setattr(DataPerturbation, "value_width", lambda self, second: 0)
    for learner in ("centroid", "lda"):
        with pytest.raises(UserError, match=r"needs (second )?moments"):
            chosen_by(learner)
    assert logged(chosen_by("best"), "best", "learner")[-1] < 3


@pytest.mark.parametrize("mode", ["per-class", "joint", "label+features", "as-coded"])
@pytest.mark.parametrize("lam", [0.01, "published-cv"])
@pytest.mark.parametrize("data", [DATA, SEVEN], ids=["two classes", "seven"])
def test_the_best_learner_is_chosen_and_logged(mode, lam, data):
    made = chosen_by("best", PUBLISHED | {"mode": mode}, lam=lam, data=data)
    best, again = made.layer("best"), chosen_by("best", PUBLISHED | {"mode": mode}, lam=lam, data=data).layer("best")
    assert (logged(made, "best", "learner") == best.chosen).all()
    name = LEARNED[best.chosen]
    given = chosen_by(name, PUBLISHED | {"mode": mode}, lam=best.lam or 1.0, data=data).layer("best")
    assert best.w.tobytes() == again.w.tobytes() == given.w.tobytes()
    assert best.lam == 0 if name in FITS else best.lam in ((0.01,) if lam == 0.01 else GRID)
    assert ("lambda" in set(made.log.frame()["metric"])) == (lam == "published-cv")


def test_the_best_learner_is_that_which_agrees_most_often_with_held_out_labels(monkeypatch):
    """One learner at a time is given a model that is always right, as only it can be."""
    for number, learner in enumerate(("centroid", "lda"), start=3):
        with monkeypatch.context() as patched:
            patched.setattr(lambda_choice, "_agreement", lambda *_: 0.5)
            right = lambda records, world, nodes, choice, x, label, w=learner: float(choice.learner == w)  # noqa: E731
            patched.setattr(lambda_choice, "_agreement_in_closed_form", right)
            assert logged(chosen_by("best"), "best", "learner").tolist() == [number] * 2


@pytest.mark.parametrize("learner", ["centroid", "lda", "best"])
def test_the_shrinkage_is_that_which_agrees_most_often_with_held_out_labels(monkeypatch, learner):
    """One shrinkage is given a model that is always right, as only it can be."""
    wanted = SHRINKS[3]
    monkeypatch.setattr(lambda_choice, "_agreement", lambda *_: 0.5)
    right = lambda records, world, nodes, choice, x, label: float(choice.shrink == wanted)  # noqa: E731
    monkeypatch.setattr(lambda_choice, "_agreement_in_closed_form", right)
    made = chosen_by(learner, shrink="published-cv")
    best = made.layer("best")
    assert logged(made, "best", "shrink").tolist() == [wanted] * 2
    given = chosen_by("centroid" if learner == "best" else learner, shrink=wanted).layer("best")
    assert best.w.tobytes() == given.w.tobytes()
    assert best.w.tobytes() != chosen_by("lda" if learner == "lda" else "centroid").layer("best").w.tobytes()


def test_the_shrinkage_is_not_chosen_on_private_records():
    with pytest.raises(UserError, match="choosing the shrinkage on private records") as caught:
        chosen_by("centroid", None, shrink="published-cv")
    assert caught.value.key == "best.shrink"
    with pytest.raises(UserError, match="shrink requires learner"):
        chosen_by("pegasos", shrink=0.5)


def test_no_learner_is_chosen_on_private_records_or_on_those_of_one_node():
    with pytest.raises(UserError, match="choosing the learner on private records") as caught:
        chosen_by("best", None)
    assert caught.value.key == "best.learner"
    assert chosen_by("best", nodes={"records": 200}).layer("best").chosen == -1


def test_the_noise_of_a_model_in_closed_form_is_all_that_separates_it_from_the_records():
    """With ε of a million the model is that of raw records, up to the correction for finitely many of them."""
    for learner in ("centroid", "lda"):
        near, exact = chosen_by(learner, epsilon=1e6), chosen_by(learner, None)
        assert near.latest["best"]["accuracy.mean"] == pytest.approx(exact.latest["best"]["accuracy.mean"], abs=0.05)


def test_the_mean_model_is_the_mean_of_all_models():
    made = ended(GOLF, BEST, metrics=["mean-model", "optimum"])
    golf, best = made.layer("golf"), made.layer("best").w[0, 0].astype(np.float64)
    mean = golf.w.astype(np.float64).mean(axis=0)[0]
    found = {name: logged(made, "golf", f"mean_model.{name}")[-1] for name in ("cosine", "distance", "angle")}
    assert found["cosine"] == pytest.approx(mean @ best / np.linalg.norm(mean) / np.linalg.norm(best), abs=1e-3)
    assert found["distance"] == pytest.approx(np.linalg.norm(mean - best) / np.linalg.norm(best), abs=1e-2)
    assert found["angle"] == pytest.approx(np.degrees(np.arctan2(mean[1], mean[0])), abs=1e-5)
    assert logged(made, "golf", "optimum.error")[-1] == logged(made, "best", "error.mean")[-1]


def test_nobody_measures_the_mean_model_unasked():
    names = set(ended(GOLF).log.frame()["metric"])
    assert not any(name.startswith(("mean_model", "optimum", "cosine", "distance")) for name in names)
