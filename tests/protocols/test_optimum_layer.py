"""The optimum on everything that is published, walks that reach it, and the mean of all models."""

import naive
import numpy as np
import pytest
from helpers import learning_tree, simulation

from golfsim.core.errors import UserError

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
    with pytest.raises(UserError, match="has no step size"):
        ended(WALK | {"offset": 1.0, "learner": "mean"})


def test_an_averaged_walk_with_an_offset_comes_closer_to_the_optimum_on_noisy_records():
    walk = WALK | {"hops": 40, "lambda": 1e-4}
    near = walk | {"name": "near", "average": "second-half", "offset": "published"}
    made = ended(walk, near, cycles=200, metrics=["optimum"], epsilon=1.0)
    assert logged(made, "near", "distance.mean")[-1] < logged(made, "walk", "distance.mean")[-1] / 2


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
