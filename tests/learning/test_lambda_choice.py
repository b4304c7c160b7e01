"""λ chosen on published records: from the grid, reproducibly, at no cost, and to some use."""

import numpy as np
import pytest
from helpers import finished, needs_jit, simulation, tree

from golfsim.core.errors import UserError
from golfsim.learning.lambda_choice import GRID
from golfsim.sim import checkpoint
from golfsim.testing import rows

PEERS = {"name": "peers", "use": "uniform"}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 5.0}
WALK = {"name": "learning", "use": "random_walk", "peers": "peers", "records": "published", "lambda": "published-cv"}
SMALL = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
SEVEN = {"set": "segmentation", "train": 120, "test": 40, "scale": ["minmax", "l1"], "bounds": "train"}


def table(layer=WALK, published=PUBLISHED, **tables):
    return tree(PEERS, published, layer, **({"data": SMALL, "nodes": {"records": 2}} | tables))


@pytest.mark.parametrize("use", ["random_walk", "golf"])
@pytest.mark.parametrize("mode", ["per-class", "joint", "label+features", "as-coded"])
@pytest.mark.parametrize("data", [SMALL, SEVEN], ids=["two classes", "seven"])
def test_lambda_is_one_of_the_grid_stays_the_same_and_is_logged(use, mode, data):
    run = finished(table(WALK | {"use": use}, PUBLISHED | {"mode": mode}, data=data))
    logged = [value for name, value in zip(run.log.names, run.log.values, strict=True) if name[1] == "lambda"]
    assert logged == [run.layer("learning").lam] * 6
    assert run.layer("learning").lam in GRID


def test_lambda_is_reproducible_and_survives_a_resume(tmp_path):
    one = simulation(table())
    for _ in range(3):
        one.step()
    checkpoint.save(one, tmp_path / "state")
    resumed = simulation(table())
    checkpoint.load(resumed, tmp_path / "state")
    assert resumed.layer("learning").lam == one.layer("learning").lam > 0
    for _ in resumed:
        pass
    assert rows(resumed) == rows(finished(table()))


def test_a_given_lambda_is_not_logged():
    assert "lambda" not in {metric for _, metric in finished(table(WALK | {"lambda": 0.01})).log.names}


@pytest.mark.parametrize("use", ["random_walk", "golf", "gradient_perturbation"])
def test_private_records_are_refused_for_choosing_lambda(use):
    layer = WALK | {"use": use, "records": "raw"} | ({"epsilon": 1.0} if use == "gradient_perturbation" else {})
    with pytest.raises(UserError, match="“raw” is not published") as caught:
        finished(table(layer))
    assert caught.value.key == "learning.lambda"
    assert "set lambda to a number" in caught.value.hint


def test_after_publication_no_raw_record_is_touched():
    """Layers above begin in the second cycle; by then the raw records are garbage in one of two runs."""
    late = table(WALK | {"first": 2})
    honest, robbed = simulation(late), simulation(late)
    for run in (honest, robbed):
        run.step()
    robbed.raw._x[:] = np.nan
    robbed.raw._label[:] = 0
    for run in (honest, robbed):
        for _ in run:
            pass
    assert robbed.layer("learning").lam == honest.layer("learning").lam > 0
    assert robbed.layer("learning").w.tobytes() == honest.layer("learning").w.tobytes()
    assert rows(robbed) == rows(honest)


def test_choosing_lambda_spends_nothing():
    chosen, given = (finished(table(WALK | {"lambda": lam})) for lam in ("published-cv", 1e-4))
    for run in (chosen, given):
        assert run.layer("published").ledger.visits.tolist() == [1] * 80
        assert str(run.layer("learning").guarantee()) == "ε = 5 per record, proven"


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_lambda_is_not_chosen_before_anything_is_published():
    with np.errstate(invalid="ignore"):
        late = finished(table(WALK | {"use": "golf"}, PUBLISHED | {"first": 3}))
    assert late.layer("learning").lam == finished(table(WALK | {"use": "golf"})).layer("learning").lam


def accuracy(lam, seed, learner):
    data = {"set": "spambase", "scale": ["minmax", "l1"], "bounds": "train"}
    walk = WALK | {"lambda": lam, "learner": learner, "path": "tour", "hops": "all"}
    observe = {"every": 10, "nodes": "all"}
    return finished(table(walk, data=data, nodes={}, seed=seed, cycles=10, observe=observe)).latest["learning"][
        "accuracy.mean"
    ]


@needs_jit
@pytest.mark.parametrize("learner", ["pegasos", "logistic"])
def test_on_spambase_the_chosen_lambda_beats_the_papers_under_noise(learner):
    gain = [accuracy("published-cv", seed, learner) - accuracy(1e-4, seed, learner) for seed in range(1, 11)]
    # Measured over 40 other seeds: .140 (sd .100) and .134 (sd .109). A mean of ten has a third of that sd.
    assert np.mean(gain) > 0.03
