"""A layer that is added to a scenario does not change the numbers of the other layers."""

import pytest

from golfsim.testing import state
from tests.helpers import finished, learning_tree

NEWSCAST = {"name": "peers", "use": "newscast", "view": 5}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 5.0}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "published"}
FAULTS = {
    "data": {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]},
    "churn": {"kind": "lognormal", "online": 0.8, "mu": 2.0, "sigma": 1.0},
    "transport": {"loss": 0.2, "delay": [1, 3]},
    "adversary": [{"kind": "noise", "share": 0.1}],
    "cycles": 12,
}
MORE = "more"
ADDED = {
    "an overlay below": [NEWSCAST | {"name": MORE, "view": 7}, NEWSCAST, PUBLISHED, GOLF],
    "records between": [NEWSCAST, PUBLISHED | {"name": MORE}, PUBLISHED, GOLF],
    "a learner between": [NEWSCAST, PUBLISHED, GOLF | {"name": MORE, "variant": "um"}, GOLF],
    "a learner above": [NEWSCAST, PUBLISHED, GOLF, GOLF | {"name": MORE, "learner": "logistic"}],
}


def rows(run):
    """The rows of the log of all layers but the added one."""
    frame = run.log.frame()
    return frame[frame["layer"].astype(str) != MORE].astype({"layer": str, "metric": str}).values.tolist()


def arrays(run):
    """The state of everything but the added layer, without the log and the counts of messages of all layers."""
    common = ("log", "world/transport/counts")
    return {key: array for key, array in state(run).items() if key not in common and f"layer.{MORE}/" not in key}


@pytest.mark.parametrize("layers", ADDED.values(), ids=ADDED.keys())
def test_an_added_layer_does_not_change_the_numbers_of_the_others(layers):
    alone = finished(learning_tree(NEWSCAST, PUBLISHED, GOLF, **FAULTS))
    with_more = finished(learning_tree(*layers, **FAULTS))
    assert {"peers", "published", "learning"} <= {row[3] for row in rows(alone)}
    assert str(rows(alone)) == str(rows(with_more))
    assert "layer.learning/w" in arrays(alone)
    assert arrays(alone) == arrays(with_more)
