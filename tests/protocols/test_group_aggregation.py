"""Groups that publish the noisy mean of their models: who is in them, what is sent, published, held and spent."""

import math

import naive
import numpy as np
import pytest
from helpers import (
    ALPHA,
    HERE,
    at_cycle,
    finished,
    learning_tree,
    make_layer,
    make_raw,
    make_world,
    needs_jit,
    simulation,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.network.adversaries import AdversaryConfig
from golfsim.network.delivery import Wire
from golfsim.privacy import gaussian
from golfsim.privacy.mechanisms import ROUNDING
from golfsim.privacy.secure_sum import FRACTION
from golfsim.protocol.records import RawRecords
from golfsim.runs.single import guarantees
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from protocols.group_aggregation import protocol
from protocols.group_aggregation.groups import NOBODY, join_over_views
from protocols.group_aggregation.protocol import FORMED, FREE, SENT, GroupAggregation
from protocols.newscast import Newscast
from protocols.regularised_erm import RegularisedErm
from protocols.static_overlay import StaticOverlay
from protocols.uniform import Uniform

DATA = {"set": "random", "test": 20, "scale": ["minmax", "l2"]}
SEGMENTATION = {"set": "segmentation", "test": 20, "scale": ["minmax", "l2"]}
LOCAL = {"name": "local", "use": "regularised_erm", "lambda": 0.1}
GROUPS = {"name": "groups", "use": "group_aggregation", "local": "local", "group": 4, "epsilon": 2.0}
VIEWS = {"name": "peers", "use": "newscast", "view": 20}
PRECISION = 2.0 ** -(FRACTION + 1)
GAUSSIAN = {"noise": "gaussian", "delta": 1e-5}
MU = naive.gaussian_mu(2.0, 1e-5)
TRUSTS = [{"trust": "none"}, {"trust": "honest", "honest": 2}, {"trust": "curator"}, {"trust": "as-published"}]
TRUSTS += [keys | GAUSSIAN for keys in TRUSTS if keys["trust"] != "as-published"]
by_trust = pytest.mark.parametrize("trust", TRUSTS, ids=lambda keys: f"{keys['trust']} {keys.get('noise', 'pure')}")


def table(number=20, records=2, data=DATA, local=None, **keys):
    """A scenario of groups; `keys` are those of the layer, or top-level tables."""
    top = {
        key: keys.pop(key)
        for key in ("churn", "transport", "adversary", "cycles", "seed", "nodes", "order")
        if key in keys
    }
    below = [VIEWS] if "peers" in keys else []
    top = {"cycles": 3, "nodes": {"records": records}} | top
    source = data | {"train": number * records}
    return learning_tree(*below, LOCAL | (local or {}), GROUPS | keys, number=number, data=source, **top)


def ended(**keys):
    """The layer of a run that has come to its end."""
    return finished(table(**keys)).layer("groups")


class Stage:
    """Layers without an engine: the test says who is online in each turn, and who is back afresh."""

    def __init__(self, nodes=4, adversary=(), peers=None, loss=0.0, partition=(), records=None, lam=0.1, **keys):
        self.world = make_world(
            nodes, layers=["local", "groups", "peers"], adversary=adversary, loss=loss, partition=partition
        )
        at_cycle(self.world, 0)
        generator = np.random.default_rng(7)
        some = [(generator.uniform(-0.5, 0.5, (2 + i % 3, 2)), [0, 1, 1, 0][: 2 + i % 3]) for i in range(nodes)]
        self.raw = make_raw(records or some, 2)
        self.local = make_layer(RegularisedErm, self.world, "local", records=self.raw, **{"lambda": lam})
        if peers is not None:
            keys["peers"] = peers(self.world)
            self.peers = keys["peers"]
        self.layer = make_layer(
            GroupAggregation, self.world, "groups", local=self.local, **({"group": nodes, "epsilon": 2.0} | keys)
        )

    def turn(self, gone=(), afresh=()):
        """One cycle without those who are gone; those afresh must have been gone before."""
        world, before = self.world, self.world.online
        at_cycle(world, world.cycle + 1, ~np.isin(np.arange(world.nodes), gone))
        world.since[world.online & ~before] = world.cycle
        for layer in (self.local, self.layer):
            layer.start(world, np.array(afresh, np.int32))
        self.local.step(world)
        self.layer.step(world)
        self.check()
        return self

    def check(self):
        assert_consistent(self.world, self.layer)

    @property
    def curator(self):
        """Of the only group."""
        return int(np.flatnonzero(self.layer.phase != FREE)[0])

    @property
    def others(self):
        return [i for i in range(self.world.nodes) if i != self.curator]


def assert_consistent(world, layer):
    """What must hold after every cycle in which the layer has acted, for the nodes that are online."""
    for i in np.flatnonzero(world.online):
        curator = layer.group_of[i]
        if curator == NOBODY:
            assert layer.phase[i] == FREE
            assert not layer.arrived[i]
            assert not layer.sent[i]
        else:
            assert world.online[curator]
            assert layer.phase[curator] in (FORMED, SENT)
            assert layer.group_of[curator] == curator
            assert layer.begun[curator] == layer.begun[i]
            assert layer.phase[i] == FREE or curator == i
    assert (layer.ledger.visits <= layer.config.most_aggregations).all()
    assert np.isfinite(layer.published).all()


# Forming groups


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 5),
    loss=st.sampled_from([0.0, 0.3]),
    view=st.sampled_from([0, 2, 6, "everybody"]),
    cut=st.booleans(),
)
def test_groups_over_views_are_those_of_the_reference(seed, size, loss, view, cut):
    draws = np.random.default_rng(seed)
    online, able = draws.random(12) < 0.8, draws.random(12) < 0.7
    able &= online
    side = (draws.random(12) < 0.5).astype(np.int8) * cut
    everybody = np.flatnonzero(online)
    views = [everybody if view == "everybody" else draws.permutation(12)[:view] for _ in range(12)]
    start = np.cumsum([0, *map(len, views)]) if view != "everybody" else np.empty(0, np.int64)
    order, key = draws.permutation(everybody).astype(np.int32), rng.key(seed, "layer", "group")
    group_of = np.full(12, NOBODY, np.int32)
    neighbour = np.concatenate([np.empty(0, np.int64), *views])
    empty = side if cut else side[:0]
    counts = np.zeros(4, np.int64)
    wire = Wire(key, 3, loss, online, empty, True, 16, counts)
    join_over_views(order, start, neighbour, everybody, able, wire, size, group_of)
    groups, sent, lost = naive.groups_over_views(order, views, able, online, side, size, key, 3, loss)
    assert counts.tolist() == [sent, sent - lost, lost, 16 * sent]
    found = {int(c): set(np.flatnonzero(group_of == c)) for c in set(group_of) - {NOBODY}}
    assert found == {c: set(members) for c, members in groups.items()}


def test_the_central_agent_leaves_less_than_a_group_over_and_draws_curators_uniformly():
    curators = []
    for seed in range(40):
        layer = ended(number=22, cycles=1, seed=seed)
        members = layer.group_of[layer.group_of != NOBODY]
        assert np.unique(members, return_counts=True)[1].tolist() == [4] * 5
        curators += np.unique(members).tolist()
    # 200 curators among 22 nodes: the sum of their numbers has mean 2100 and deviation below 90.
    assert abs(sum(curators) - 2100) < 3.3 * 90


@pytest.mark.parametrize("kind", [Newscast, StaticOverlay, Uniform])
def test_groups_form_over_every_kind_of_overlay(kind):
    keys = {Newscast: {"view": 5}, StaticOverlay: {"neighbours": 5}, Uniform: {}}[kind]

    def peers(world):
        overlay = make_layer(kind, world, "peers", **keys)
        at_cycle(world, 1)
        overlay.start(world, world.order)
        return overlay

    stage = Stage(12, peers=peers, formation="overlay", group=3)
    stage.turn().turn().turn()
    links = stage.peers.links(stage.world)
    assert stage.layer.number >= 2
    assert (stage.layer.held[:, 0] != NOBODY).sum() == 3 * stage.layer.number
    for curator in np.unique(stage.layer.group_of[stage.layer.group_of != NOBODY]):
        members = set(np.flatnonzero(stage.layer.group_of == curator)) - {curator}
        assert links is None or members <= set(links.indices[links.indptr[curator] : links.indptr[curator + 1]])


def test_nodes_with_too_few_records_take_no_part():
    stage = Stage(9, group=3, min_records=3)
    stage.turn().turn().turn()
    enough = np.arange(9) % 3 > 0  # two, three or four records
    assert stage.layer.ledger.visits.astype(bool).tolist() == enough.tolist()
    assert (stage.layer.held[~enough, 0] == NOBODY).all()


# One aggregation, by hand


def noise_of(layer, world, senders, curator):
    """The reference's noise for members and curator of a group."""
    key, shape = naive.key(1, layer.name, "noise"), layer._shape
    makers = {
        "gamma": naive.gamma_norm_noise,
        "gaussian": naive.gaussian_noise,
        "laplace": naive.laplace_noise,
        "share": lambda *a: naive.share_of_gamma_norm(*a, layer.config.honest),
    }

    def noise(who, kind, scale):
        node, cycle = (curator, world.cycle) if who is None else (senders[who], world.cycle - 1)
        stride = 64 + 3 * shape[1]
        return np.array([makers[kind](key, cycle, node, m * stride, shape[1], scale) for m in range(shape[0])])

    return noise


@by_trust
@pytest.mark.parametrize("how", ["plain", "masked"])
@pytest.mark.parametrize("data", [DATA, SEGMENTATION], ids=["two classes", "seven classes"])
def test_what_groups_publish_is_what_the_reference_does(trust, how, data):
    """With lost messages, a quorum of four of five and members of different sizes."""
    keys = {"group": 5, "quorum": 4, "sum": how, "transport": {"loss": 0.04}} | trust
    nodes = {"number": 30, "records": {"kind": "uniform", "min": 1, "max": 8}}
    form = "sum" if trust["trust"] == "as-published" else "mean"  # with the sum all models move alike
    run = simulation(table(number=30, data=data, records=4, nodes=nodes, local={"lambda_form": form}, **keys))
    layer, local = run.layer("groups"), run.layer("local")
    run.step()
    run.step()
    groups = {int(c): np.flatnonzero(layer.group_of == c) for c in np.flatnonzero(layer.phase == SENT)}
    arrived, n, lam = layer.arrived.copy(), local.stop - local.first, local.lam
    run.step()
    published = [c for c in sorted(groups) if arrived[groups[c]].sum() >= 4]
    assert len(set(n)) > 2
    assert len(published) < len(groups) or not all(arrived[groups[c]].all() for c in groups)
    assert layer.number >= 2
    assert how == "masked" or layer.number == len(published)
    left, worst = list(layer.published[: layer.number]), 0.0
    for curator in published:
        there = groups[curator][arrived[groups[curator]]]
        noise = noise_of(layer, run.world, there, curator)
        given = lam[there] * n[there] / 2 if trust["trust"] == "as-published" else lam[there]
        widest = (2 / (n * lam)[groups[curator]]).max()
        epsilon = 2.0 if form == "sum" else 2.0 / (1 + ROUNDING)
        kind = (MU / (1 + ROUNDING), trust.get("honest")) if "noise" in trust else ()
        mean = naive.published_mean(local.w[there], n[there], given, trust["trust"], epsilon, 4, widest, noise, *kind)
        near = (1e-5 if kind else 1e-6) * (1 + np.abs(mean).max())  # μ has six digits
        close = [np.abs(model - mean).max() <= near for model in left[:1]]
        if close == [True]:
            left.pop(0)
            moved = math.sqrt(layer._shape[1]) * 2 / (n[there] * lam[there]).min() / len(there)
            worst = max(worst, moved * 2.0 * n[there].min() * given.min() / 2)
    assert left == []
    if trust["trust"] == "as-published":
        assert layer.worst == pytest.approx(worst, rel=1e-4)


@by_trust
def test_masked_and_plain_sums_publish_the_same(trust):
    """Members drop out before they send, and before they reveal what takes the masks off."""
    models = []
    for how in ("plain", "masked"):
        stage = Stage(9, quorum=6, sum=how, **(trust | ({"honest": 4} if "honest" in trust else {})))
        stage.turn()
        first, second, third, *_ = stage.others
        stage.turn(gone=[first, second])
        stage.turn(gone=[second, third])
        assert stage.layer.number == 1
        models.append(stage.layer.published[0])
    assert models[0] == pytest.approx(models[1], abs=2 * PRECISION + 1e-6 * float(abs(models[0]).max()))


def test_without_noise_the_mean_is_the_mean():
    stage = Stage(5, epsilon=math.inf, sum="plain")
    stage.turn().turn().turn()
    assert stage.layer.published[0] == pytest.approx(stage.local.w.mean(axis=0), rel=1e-6)


@by_trust
def test_an_infinite_epsilon_is_no_noise_for_any_trust(trust):
    clean, found = ended(epsilon=math.inf), ended(epsilon=math.inf, **trust)
    assert clean.number > 0
    assert clean.published.tobytes() == found.published.tobytes()
    assert guarantees(finished(table(epsilon=math.inf, **trust)))["groups"] == "not private"


# Who leaves


@pytest.mark.parametrize("how", ["plain", "masked"])
@pytest.mark.parametrize("turns", [1, 2])
def test_a_group_whose_curator_leaves_is_over_and_the_others_try_again(how, turns):
    stage = Stage(6, group=3, sum=how, aggregation_epsilon=0.5)
    for _ in range(turns):
        stage.turn()
    curator = stage.curator
    members = np.flatnonzero(stage.layer.group_of == curator)
    spent = stage.layer.ledger.visits.copy()
    assert spent[members].tolist() == [turns - 1] * 3
    stage.turn(gone=[curator])
    orphans = members[members != curator]
    assert stage.layer.number == turns - 1  # the other group's
    assert (stage.layer.ledger.visits[orphans] == spent[orphans]).all()
    stage.turn()
    assert stage.layer.phase[curator] == FREE or stage.layer.begun[curator] == stage.world.cycle
    stage.turn().turn().turn()
    assert stage.layer.ledger.visits[orphans].min() > spent[orphans].min()


@pytest.mark.parametrize("afresh", [False, True])
@pytest.mark.parametrize("turns", [1, 2])
def test_a_curator_that_is_back_has_no_group_any_more(turns, afresh):
    """Also when the layer has slept in the meantime and nobody has noticed."""
    stage = Stage(4, aggregation_epsilon=0.5)
    for _ in range(turns):
        stage.turn()
    curator, world = stage.curator, stage.world
    at_cycle(world, world.cycle + 1, np.arange(4) != curator)
    stage.turn(afresh=[curator] if afresh else [])
    assert stage.layer.number == 0
    assert stage.layer.counts[0] == 2  # a new group has formed at once
    stage.turn().turn()
    assert stage.layer.number == 1


@pytest.mark.parametrize("how", ["plain", "masked"])
def test_a_member_that_is_not_there_to_send_is_missing_from_the_mean_and_pays_nothing(how):
    stage = Stage(4, quorum=3, sum=how, epsilon=math.inf)
    stage.turn()
    away, *_ = stage.others
    there = np.arange(4) != away
    stage.turn(gone=[away]).turn()
    assert stage.layer.ledger.visits.tolist() == there.astype(int).tolist()
    assert stage.layer.published[0] == pytest.approx(stage.local.w[there].mean(axis=0), abs=1e-6)
    assert stage.layer.group_of[away] == NOBODY
    assert (stage.layer.held[:, 0] != NOBODY).tolist() == there.tolist()


@pytest.mark.parametrize("how", ["plain", "masked"])
def test_a_member_that_leaves_after_sending_is_in_the_mean(how):
    stage = Stage(4, quorum=3, sum=how, epsilon=math.inf)
    stage.turn().turn()
    away, *_ = stage.others
    stage.turn(gone=[away])
    assert stage.layer.published[0] == pytest.approx(stage.local.w.mean(axis=0), abs=1e-6)
    assert stage.layer.held[away, 0] == NOBODY


@pytest.mark.parametrize("afresh", [False, True])
@pytest.mark.parametrize("how", ["plain", "masked"])
def test_a_member_that_was_away_between_two_turns_keeps_its_keys_unless_it_starts_afresh(how, afresh):
    stage = Stage(4, quorum=3, sum=how, epsilon=math.inf)
    stage.turn()
    away, *_ = stage.others
    at_cycle(stage.world, 2, np.arange(4) != away)  # the layer sleeps
    stage.turn(afresh=[away] if afresh else []).turn()
    there = (np.arange(4) != away) | (not afresh)
    assert stage.layer.ledger.visits.tolist() == there.astype(int).tolist()
    assert stage.layer.published[0] == pytest.approx(stage.local.w[there].mean(axis=0), abs=1e-6)


@pytest.mark.parametrize("quorum", [3, 4])
def test_a_member_back_afresh_after_sending_cannot_take_masks_off(quorum):
    stage = Stage(4, quorum=quorum, epsilon=math.inf)
    stage.turn().turn()
    away, *_ = stage.others
    at_cycle(stage.world, 3, np.arange(4) != away)
    stage.turn(afresh=[away])
    assert stage.layer.number == (quorum == 3)
    if quorum == 3:
        assert stage.layer.published[0] == pytest.approx(stage.local.w.mean(axis=0), abs=1e-6)


@pytest.mark.parametrize("how", ["plain", "masked"])
def test_below_the_quorum_nothing_is_published_and_what_was_sent_is_spent(how):
    stage = Stage(4, quorum=3, sum=how)
    stage.turn()
    stage.turn(gone=stage.others[:2]).turn()
    assert stage.layer.number == 0
    assert stage.layer.ledger.visits.sum() == 2
    assert stage.layer.observe(stage.world)["groups.given_up"] == 1


def test_noise_is_for_the_model_that_was_sent_though_the_records_are_others_by_now():
    one, other = (Stage(3, trust="curator", sum="plain", lam=0.3) for _ in range(2))
    for stage in (one, other):
        stage.turn().turn()
    other.local.lam *= 1000
    other.local.stop += 50
    for stage in (one, other):
        stage.layer._publish(at_cycle(stage.world, 3))
    assert one.layer.published.tobytes() == other.layer.published.tobytes()
    assert one.layer.published.any()


# Budgets, in all weathers


SCENES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 1000),
        "group": st.integers(1, 5),
        "aggregation_epsilon": st.sampled_from([0.4, 1.0, 2.0]),
        "formation": st.sampled_from(["central", "overlay"]),
        "sum": st.sampled_from(["masked", "plain"]),
        "trust": st.sampled_from(["none", "curator", "as-published"]),
        "noise": st.sampled_from(["pure", "gaussian"]),
        "unit": st.sampled_from(["record", "node"]),
        "publish": st.sampled_from(["party", "all", "gossip"]),
        "cap": st.sampled_from([None, 1, 2]),
        "every": st.sampled_from([1, 2]),
        "churn": st.fixed_dictionaries(
            {
                "kind": st.just("rate"),
                "leave": st.sampled_from([0.0, 0.1, 0.4]),
                "rejoin": st.sampled_from([0.3, 1.0]),
                "return": st.sampled_from(["keep", "afresh"]),
            }
        ),
        "loss": st.sampled_from([0.0, 0.05, 0.3]),
        "order": st.sampled_from(["fixed", "shuffled"]),
    }
)


@settings(max_examples=80)
@given(SCENES, st.integers(0, 4))
def test_no_budget_is_overspent_and_nobody_is_in_two_groups_whatever_happens(scene, missing):
    scene = {key: value for key, value in scene.items() if value is not None}
    if scene["trust"] == "as-published":
        scene["noise"] = "pure"
    scene |= {"delta": 1e-5} if scene["noise"] == "gaussian" else {}
    quorum = max(1, scene["group"] - missing)
    transport = {"loss": scene.pop("loss")}
    run = simulation(table(number=11, cycles=14, peers="peers", quorum=quorum, transport=transport, **scene))
    layer, world = run.layer("groups"), run.world
    while not run.finished:
        before = {name: getattr(layer, name).copy() for name in ("upload", "held", "group_of")}
        visits, number = layer.ledger.visits.copy(), layer.number
        run.step()
        sent = layer.ledger.visits - visits
        changed = (layer.upload != before["upload"]).any(axis=1)
        assert set(sent) <= {0, 1}
        assert (sent[changed] == 1).all()
        assert (before["group_of"][sent == 1] != NOBODY).all()
        assert (layer.ledger.spent() <= 2.0 + 1e-9).all()
        assert layer.number - number <= 11 // quorum
        if layer.acts(world.cycle):
            assert_consistent(world, layer)
        if world.online.any():
            found = run.latest["groups"]
            assert min(found["groups.given_up"], found["members.missed"]) >= 0
            assert layer.number == found["groups.published"]
        held = layer.held
        assert all(len(set(row[row != NOBODY])) == (row != NOBODY).sum() for row in held)
        assert held.max(initial=-1) < layer.number
    assert quorum * layer.number <= layer.ledger.visits.sum()


def test_a_node_takes_part_as_often_as_its_budget_allows():
    for epsilon, each, times in ((1.0, 0.1, 10), (0.3, 0.1, 3), (1.0, 0.3, 3), (2.0, None, 1), (0.7, 0.1, 7)):
        more = {} if each is None else {"aggregation_epsilon": each}
        layer = ended(number=4, cycles=3 + 2 * times, epsilon=epsilon, **more)
        assert layer.ledger.visits.tolist() == [times] * 4
        assert layer.number == times
        assert layer.ledger.spent().max() == pytest.approx(times * (each or epsilon))


@pytest.mark.parametrize(("epsilon", "each"), [(2.0, None), (2.0, 0.5), (10.0, 1.0), (1.0, 0.99), (3.0, 0.3)])
def test_with_gaussian_noise_aggregations_share_the_square_of_mu(epsilon, each):
    more = {} if each is None else {"aggregation_epsilon": each}
    times = naive.aggregations(epsilon, each or epsilon, 1e-5)
    run = finished(table(number=4, cycles=3 + 2 * times, epsilon=epsilon, **GAUSSIAN, **more))
    layer = run.layer("groups")
    assert layer.ledger.visits.tolist() == [times] * 4
    assert layer.number == times
    together = math.sqrt(times) * naive.gaussian_mu(each or epsilon, 1e-5)
    stated = layer.guarantee()
    assert stated.delta == 1e-5
    assert naive.gaussian_mu(stated.epsilon, 1e-5) == pytest.approx(together, rel=1e-4)
    assert layer.ledger.spent().max() == pytest.approx(stated.epsilon, rel=1e-5)
    assert layer.ledger.spent().max() <= stated.epsilon <= epsilon
    assert times >= (epsilon / (each or epsilon)) // 1


@pytest.mark.parametrize(("epsilon", "each"), [(2.0, 0.5), (10.0, 1.0), (3.0, 0.3), (1.0, 1.0)])
def test_all_aggregations_together_stay_within_the_budget(epsilon, each):
    config = ended(epsilon=epsilon, aggregation_epsilon=each, **GAUSSIAN).config
    assert gaussian.delta_of(math.sqrt(config.most_aggregations) * config.mu, config.total) <= 1e-5
    assert gaussian.delta_of(math.sqrt(config.most_aggregations + 1) * config.mu, epsilon) > 1e-5
    assert config.mu <= gaussian.mu_of(each, 1e-5)


def test_the_ledger_states_the_epsilon_at_another_delta():
    run = finished(table(aggregation_epsilon=0.5, cycles=30, **GAUSSIAN) | {"privacy": {"delta": 1e-6}})
    spent = math.sqrt(run.layer("groups").ledger.visits.max()) * naive.gaussian_mu(0.5, 1e-5)
    assert naive.gaussian_mu(run.latest["groups"]["spent.delta.max"], 1e-6) == pytest.approx(spent, rel=1e-4)


@by_trust
def test_no_noise_is_used_for_two_models(trust):
    """The same curator publishes the mean of the same models again and again."""
    keys = {"number": 4, "cycles": 25, "aggregation_epsilon": 0.2, "sum": "plain", "data": SEGMENTATION}
    keys |= {"aggregation_epsilon": 0.55} if "noise" in trust else {}
    clean = ended(number=4, epsilon=math.inf, sum="plain", data=SEGMENTATION)
    run = simulation(table(**keys, **trust))
    layer, uploads = run.layer("groups"), []
    for _ in run:
        uploads.append(layer.upload.copy())
    assert layer.number == 10
    noise = np.concatenate([layer.published - clean.published[0], -(layer.published - clean.published[0])])
    assert len(np.unique(np.round(np.abs(noise), 4))) > 0.9 * noise.size / 2
    if trust["trust"] in ("none", "honest"):
        rows = np.unique(np.round(np.concatenate(uploads), 6), axis=0)
        assert len(rows) == 1 + 4 * 10  # nothing at first, then something new each time


# Noise


def lengths(**keys):
    """What noise adds to each published model, groups as they are without it: [models, linear, features]."""
    same = {"number": 1600, "records": 1, "local": {"lambda": 0.5}} | keys
    free = {key: value for key, value in same.items() if key != "aggregation_epsilon"}
    clean = ended(**(free | {"epsilon": math.inf}))
    found = ended(**same)
    number = clean.number  # of the first aggregations, if there are several
    return (found.published[:number] - clean.published[:number]).astype(float), clean


@needs_jit
@pytest.mark.parametrize(
    ("keys", "scale"),
    [
        ({"group": 1, "trust": "none"}, 4 / 2),
        ({"group": 4, "trust": "honest", "honest": 4}, 4 / 2 / 4),
        ({"group": 4, "trust": "curator"}, 4 / 2 / 4),
        ({"group": 4, "trust": "curator", "quorum": 2}, 4 / 2 / 2),
        ({"group": 4, "trust": "curator", "unit": "node", "records": 5}, 4 / 2 / 4),
        ({"group": 4, "trust": "curator", "records": 5}, 4 / 5 / 2 / 4),
    ],
    ids=str,
)
def test_the_length_of_the_noise_in_a_mean_is_gamma_of_its_scale(keys, scale):
    noise, _ = lengths(**keys)
    length, d = np.linalg.norm(noise[:, 0], axis=1), noise.shape[2]
    assert stats.kstest(length, stats.gamma(d, scale=scale).cdf).pvalue > ALPHA
    assert stats.kstest(length, stats.gamma(d, scale=1.3 * scale).cdf).pvalue < ALPHA


@needs_jit
def test_noise_as_published_is_laplace_for_the_smallest_member_alone():
    noise, _ = lengths(group=4, trust="as-published")
    assert stats.kstest(noise.ravel(), stats.laplace(scale=2).cdf).pvalue > ALPHA


@needs_jit
def test_seven_models_share_epsilon():
    noise, _ = lengths(number=300, group=3, trust="curator", data=SEGMENTATION)
    length, d = np.linalg.norm(noise, axis=2).ravel(), noise.shape[2]
    assert stats.kstest(length, stats.gamma(d, scale=7 * 4 / 2 / 3).cdf).pvalue > ALPHA


@needs_jit
@pytest.mark.parametrize(
    ("keys", "sensitivity"),
    [
        ({"group": 1, "trust": "none"}, 4),
        ({"group": 4, "trust": "none"}, 4 / math.sqrt(4)),  # the noise of four members, in their mean
        ({"group": 4, "trust": "honest", "honest": 4}, 4 / 4),
        ({"group": 4, "trust": "honest", "honest": 2}, 4 / 4 * math.sqrt(2)),  # four shares, of which two would do
        ({"group": 4, "trust": "curator", "quorum": 2}, 4 / 2),
        ({"group": 4, "trust": "curator", "unit": "node", "records": 5}, 4 / 4),
        ({"group": 4, "trust": "curator", "records": 5, "sum": "plain"}, 4 / 5 / 4),
        ({"group": 1, "trust": "none", "aggregation_epsilon": 0.5}, 4 * MU / naive.gaussian_mu(0.5, 1e-5)),
    ],
    ids=str,
)
def test_gaussian_noise_in_a_mean_is_normal_with_its_deviation(keys, sensitivity):
    noise, _ = lengths(**GAUSSIAN, **keys)
    for coordinate in noise[:, 0].T:
        assert stats.kstest(coordinate, stats.norm(scale=sensitivity / MU).cdf).pvalue > ALPHA
        assert stats.kstest(coordinate, stats.norm(scale=1.5 * sensitivity / MU).cdf).pvalue < ALPHA


@needs_jit
def test_seven_models_share_the_square_of_mu():
    noise, _ = lengths(number=300, group=3, trust="curator", data=SEGMENTATION, **GAUSSIAN)
    scale = math.sqrt(7) * 4 / MU / 3
    assert stats.kstest(noise.ravel(), stats.norm(scale=scale).cdf).pvalue > ALPHA
    assert stats.kstest(noise.ravel(), stats.norm(scale=1.1 * scale).cdf).pvalue < ALPHA


# Publishing


def ring(world):
    at_cycle(world, 1)
    overlay = make_layer(StaticOverlay, world, "peers", kind="ring", neighbours=2)
    overlay.start(world, world.order)
    return overlay


def test_everybody_gets_what_is_published_to_all_and_a_group_what_is_published_to_it():
    party, everyone = ended(number=10, group=3), ended(number=10, group=3, publish="all")
    assert party.number == everyone.number == 3
    assert (party.held != NOBODY).sum() == 9
    assert (everyone.held != NOBODY).sum() == 30


@pytest.mark.parametrize("hops", [1, 2, 5])
def test_gossip_goes_as_far_as_its_hops(hops):
    stage = Stage(20, peers=uniform, group=1, publish="gossip", hops=hops, fanout=3, sum="plain")
    stage.layer.ledger.visits[1:] = 1  # only node 0 has budget left
    for _ in range(3):
        stage.turn()
    reached = [(stage.layer.held[:, 0] == 0).sum()]
    sent = []
    for _ in range(12):
        before = stage.world.transport.totals("groups")["messages.sent"]
        fresh = (stage.layer.distance >= 0).sum()
        stage.turn()
        sent.append((stage.world.transport.totals("groups")["messages.sent"] - before, fresh))
        reached.append((stage.layer.held[:, 0] == 0).sum())
    assert reached[0] == 1
    assert reached[hops:] == [reached[hops]] * (13 - hops)
    assert reached[0] < reached[1]
    assert reached[hops] <= sum(3**h for h in range(hops + 1))
    assert all(messages == 3 * fresh for messages, fresh in sent[:hops])
    assert all(messages == 0 for messages, _ in sent[hops:])


def uniform(world):
    at_cycle(world, 1)
    return make_layer(Uniform, world, "peers")


def test_a_model_that_made_room_for_another_is_not_taken_again():
    stage = Stage(4, peers=uniform, publish="gossip", cap=1, aggregation_epsilon=0.5)
    give = stage.layer._receive
    for model in (2, 1, 2, 1):
        give(np.array([3], np.int32), np.array([model]), np.zeros(1, np.int16))
    assert stage.layer.held[3].tolist() == [1]
    assert stage.layer.received[3] == 2
    stage.layer.start(stage.world, np.array([3], np.int32))
    give(np.array([3], np.int32), np.array([2]), np.zeros(1, np.int16))
    assert stage.layer.held[3].tolist() == [2]


def test_a_cap_keeps_the_newest():
    layer = ended(number=4, cycles=13, aggregation_epsilon=0.4, cap=3)
    assert layer.number == 5
    assert [set(row) for row in layer.held] == [{2, 3, 4}] * 4


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([2, 3]))
def test_pruning_by_score_keeps_what_is_right_most_often_on_the_own_records(seed, cap, classes):
    draws = np.random.default_rng(seed)
    x, label = draws.normal(size=(6, 2)).astype(np.float32), draws.integers(0, classes, 6)
    world = make_world(2, layers=["local", "groups"])
    raw = make_raw([(x / 9, label), (x[:1] / 9, label[:1])], classes)
    local = make_layer(RegularisedErm, world, "local", records=raw, **{"lambda": 0.1})
    keys = {"group": 1, "epsilon": 1.0, "aggregation_epsilon": 0.1, "cap": cap, "prune": "score"}
    layer = make_layer(GroupAggregation, world, "groups", local=local, **keys)
    layer.published[:8] = draws.normal(size=(8, *layer._shape))
    layer._receive(np.zeros(8, np.int32), np.arange(8), np.zeros(8, np.int16))
    wrong = [naive.error(w.astype(float), raw.rows.x[:6].astype(float), label) for w in layer.published[:8]]
    assert sorted(wrong[m] for m in layer.held[0]) == sorted(wrong)[:cap]
    assert (layer.held[1] == NOBODY).all()


# Predicting


def test_scores_are_the_votes_of_the_local_and_all_received_models():
    run = finished(table(number=12, cycles=9, aggregation_epsilon=0.5, tie="last", local_weight=1.5))
    layer, local = run.layer("groups"), run.layer("local")
    nodes, x = np.array([3, 0, 7], np.int32), run.raw.rows.x[:9]
    found, side_by_side = layer.scores(nodes, x), layer.others(nodes, x)
    for place, node in enumerate(nodes):
        held = layer.published[layer.held[node][layer.held[node] != NOBODY]].astype(float)
        assert len(held) >= 2
        for r, record in enumerate(x.astype(float)):
            each = [naive.predict(w, record) for w in (local.w[node], *held)]
            scores = [[0.0, 0.0]] * len(each)
            expected = naive.majority(each, [1.5] + [1] * len(held), scores, "last")
            assert (found[r, place, 0] >= 0) == expected
            assert side_by_side["local"][r, place] == each[0]
            assert side_by_side["aggregated"][r, place] == naive.majority(each[1:], [1] * len(held), scores[1:], "last")


def test_the_log_has_local_aggregated_and_ensemble_errors_side_by_side():
    found = finished(table(cycles=3)).latest["groups"]
    assert {"error.mean", "error.std", "local_error.mean", "aggregated_error.mean"} <= found.keys()
    alone = finished(table(cycles=3, predict="aggregated")).latest["groups"]
    assert alone["error.mean"] == alone["aggregated_error.mean"] == found["aggregated_error.mean"]


def test_who_has_received_nothing_predicts_with_its_own_model_or_not_at_all():
    for keys, nobody in (({}, False), ({"predict": "aggregated"}, True), ({"local_weight": 0.0}, True)):
        run = finished(table(cycles=1, **keys))
        assert (run.layer("groups").holders(run.world).size == 0) == nobody
    found = run.layer("groups").others(np.array([0], np.int32), run.raw.rows.x[:3])
    assert (found["aggregated"] == -1).all()
    assert (found["local"] >= 0).all()


# What is logged and said


def test_it_is_finished_when_no_group_can_form_and_none_is_under_way():
    run = simulation(table(number=9, cycles=8, aggregation_epsilon=1.0))
    found = [(run.layer("groups").number, run.latest["groups"]["finished"]) for _ in run]
    assert [number for number, _ in found] == [0, 0, 2, 2, 4, 4, 4, 4]
    assert found[3][1] == 0
    assert found[-1][1] == 1
    assert [over for _, over in found] == sorted(over for _, over in found)


def test_it_is_not_finished_while_nodes_that_were_never_there_have_budget():
    run = simulation(table(number=9, cycles=5, churn={"kind": "crash", "at": 1, "number": 8}))
    assert [run.latest["groups"]["finished"] for _ in run] == [0] * 5


def test_groups_are_published_given_up_or_under_way():
    keys = {"churn": {"kind": "rate", "leave": 0.1, "rejoin": 0.5}, "transport": {"loss": 0.02}}
    run = simulation(table(number=40, cycles=15, quorum=3, aggregation_epsilon=0.2, **keys))
    for _ in run:
        found, layer = run.latest["groups"], run.layer("groups")
        under_way = (layer.phase[run.world.online] != FREE).sum()
        assert found["groups.formed"] == found["groups.published"] + found["groups.given_up"] + under_way
    assert found["groups.given_up"] > 3
    assert found["groups.published"] > 3


def test_bytes_and_rounds_of_a_secure_sum_are_logged_and_its_time_is_not():
    found = {}
    for how in ("plain", "masked"):
        run = finished(table(number=8, sum=how))
        metrics = run.latest["groups"]
        found[how] = metrics["messages.sent"], metrics["bytes.sent"], metrics["rounds"]
        assert (run.layer("groups").times()["masks_s"] > 0) == (how == "masked")
        assert not any("masks" in name for name in metrics)
    d = run.raw.rows.x.shape[1]
    shared = 6 * (16 + 8 * d + 4 * d)  # invitation, model, published mean for three of each of two groups
    keys = 6 * (64 + 3 * 64 + 2 * 3 * 112 + 4 * 4 + 4 * 32)
    assert found == {"plain": (18, shared, 2), "masked": (54, shared + keys, 2 * (2 + 1 + 1))}


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({}, "ε = 2 per record, proven"),
        ({"aggregation_epsilon": 0.3}, "ε = 1.8 per record, proven"),
        ({"unit": "node"}, "ε = 2 per node, proven"),
        (GAUSSIAN, "ε = 2, δ = 1e-05 per record, proven"),
        (GAUSSIAN | {"aggregation_epsilon": 0.5}, "ε = 1.96033, δ = 1e-05 per record, proven"),
        (GAUSSIAN | {"trust": "curator", "unit": "node"}, "ε = 2, δ = 1e-05 per node, proven: curator trusted"),
        (
            GAUSSIAN | {"trust": "honest", "honest": 2},
            "ε = 2, δ = 1e-05 per record, proven: if 2 of the members in each mean add their share of the noise; "
            "the rounding of shares is not covered by the proof",
        ),
        (
            GAUSSIAN | {"local": {"penalty": "lasso"}},
            "not private: Lasso’s minimum has no bounded sensitivity (ε = 2 at δ = 1e-05 was requested)",
        ),
        ({"trust": "curator"}, "ε = 2 per record, proven: curator trusted"),
        ({"trust": "curator", "sum": "plain"}, "ε = 2 per record, proven: curator trusted, who sees every model"),
        (
            {"trust": "honest", "honest": 2},
            "ε = 2 per record, proven: if 2 of the members in each mean add their share of the noise; "
            "the rounding of shares is not covered by the proof",
        ),
        (
            {"trust": "honest", "honest": 2, "sum": "plain"},
            "ε = 2 per record, proven: if 2 of the members in each mean add their share of the noise; "
            "curator trusted, who sees every model",
        ),
        (
            {"local": {"penalty": "lasso"}},
            "not private: Lasso’s minimum has no bounded sensitivity (ε = 2 was requested)",
        ),
        (
            {"local": {"lambda": "cv"}},
            "not private: λ was chosen on the records without accounting (ε = 2 was requested)",
        ),
    ],
    ids=str,
)
def test_the_guarantee_says_what_it_rests_on(keys, text):
    assert guarantees(finished(table(records=4, **keys)))["groups"] == text


def test_a_mean_of_nodes_that_hold_the_same_record_moves_as_many_times_further():
    tree = table(number=20, trust="curator", **GAUSSIAN)
    tree["nodes"] = {"number": 20, "repeat": True, "records": 2}
    tree["data"]["train"] = 20
    found = finished(tree).layer("groups").guarantee()
    assert naive.gaussian_mu(found.epsilon, found.delta) == pytest.approx(2 * MU, rel=1e-4)
    assert found.note == "2 at each of up to 2 nodes that hold it; curator trusted"


def test_noise_as_published_states_its_true_epsilon():
    run = finished(table(trust="as-published", group=1, records=1))
    d = run.raw.rows.x.shape[1]
    assert run.layer("groups").guarantee().epsilon == pytest.approx(2.0 * math.sqrt(d), rel=1e-4)
    # Σ loss + λ‖w‖² moves n/2 times as far as the noise covers.
    summed = finished(table(trust="as-published", group=1, records=6, local={"lambda_form": "sum"}))
    assert summed.layer("groups").guarantee().epsilon == pytest.approx(2.0 * math.sqrt(d) * 6 / 2, rel=1e-4)
    # Without clipping records may be longer than 1.
    longer = finished(table(trust="as-published", group=1, records=1, data=SEGMENTATION | {"scale": ["minmax"]}))
    d = longer.raw.rows.x.shape[1]
    length = np.linalg.norm(longer.raw.rows.x, axis=1).max()
    assert longer.layer("groups").guarantee().epsilon == pytest.approx(2.0 * math.sqrt(d) * max(1, length), rel=1e-4)


def refusal(**keys):
    with pytest.raises(ScenarioError) as caught:
        Scenario.of(table(**keys), HERE)
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"quorum": 5}, "groups.quorum: expected at most 4"),
        ({"trust": "honest"}, "groups.honest: required with trust = “honest”"),
        ({"honest": 2}, "groups.honest: required with trust = “honest”"),
        ({"trust": "honest", "honest": 4, "quorum": 3}, "groups.honest: expected at most 3"),
        ({"trust": "honest", "honest": 1, "quorum": 3}, "groups.quorum: expected more than 3"),
        ({"formation": "overlay"}, "groups.peers: groups over views and gossip need an overlay"),
        ({"publish": "gossip"}, "groups.peers: groups over views and gossip need an overlay"),
        ({"aggregation_epsilon": 3.0}, "groups.aggregation_epsilon: expected at most 2"),
        ({"aggregation_epsilon": 1.0, "epsilon": math.inf}, "groups.aggregation_epsilon: epsilon = inf has no noise"),
        ({"peers": "peers", "publish": "gossip", "prune": "score"}, "groups.prune: with gossip"),
        ({"epsilon": math.nan}, "groups.epsilon"),
        ({"noise": "gaussian"}, "groups.delta: missing"),
        ({"delta": 1e-5}, "groups.delta: needs noise"),
        (GAUSSIAN | {"trust": "as-published"}, "groups.trust: the source adds no Gaussian noise"),
    ],
    ids=str,
)
def test_what_does_not_fit_together_is_refused(keys, text):
    assert text in refusal(**keys)


def test_fewer_honest_members_than_could_lift_the_masks_matter_only_for_masks():
    assert ended(trust="honest", honest=1, quorum=3, sum="plain").number > 0


def refused(**keys):
    with pytest.raises(UserError) as caught:
        simulation(table(**keys))
    return str(caught.value)


def test_what_shows_only_with_the_data_is_refused_too(monkeypatch):
    assert "a group of 9 cannot form among 8 nodes" in refused(number=8, group=9)
    assert "already has noisy models" in refused(local={"noise": "output", "epsilon": 1.0})
    assert "L2 length" in refused(data=SEGMENTATION | {"scale": ["minmax"]})
    monkeypatch.setattr(protocol, "available", lambda: 100)
    assert "set a cap, or increase aggregation_epsilon" in refused()


# Bad peers, and skewed ones


def adversary(kind, **keys):
    return (AdversaryConfig.model_validate({"kind": kind, "number": 1} | keys),)


@pytest.mark.parametrize("how", ["plain", "masked"])
def test_a_saboteur_sends_the_negative_of_its_model_or_an_old_one(how):
    keys = {"epsilon": math.inf, "sum": how}
    negative = Stage(3, adversary=adversary("negative"), **keys)
    negative.turn().turn().turn()
    bad = negative.world.tampering.members[0][1][0]
    signs = np.where(np.arange(3) == bad, -1, 1)[:, None, None]
    assert negative.layer.published[0] == pytest.approx((signs * negative.local.w).mean(axis=0), abs=1e-6)
    old = Stage(3, adversary=adversary("old"), **keys)
    old.turn()
    first = old.local.w.copy()
    old.local.w += 1.0
    old.turn().turn()
    mixed = np.where(np.arange(3)[:, None, None] == bad, first, first + 1)
    assert old.layer.published[0] == pytest.approx(mixed.mean(axis=0), abs=1e-6)


def test_adversarial_nodes_that_send_noise_spoil_the_means():
    clean, spoilt = (
        ended(epsilon=math.inf, number=8, group=8, adversary=adversaries)
        for adversaries in ([], [{"kind": "noise", "number": 2, "scale": 1e6}])
    )
    assert abs(spoilt.published).max() > 1000 * abs(clean.published).max()


@pytest.mark.parametrize(
    "nodes",
    [
        {"records": 10, "split": {"kind": "label-skew", "alpha": 0.3}},
        {"number": 20, "records": {"kind": "uniform", "min": 1, "max": 8}},
    ],
    ids=["labels", "quantities"],
)
def test_it_runs_on_skewed_peers(nodes):
    run = finished(table(number=20, records=10, nodes=nodes, trust="curator"))
    assert run.layer("groups").number == 5
    assert 0 <= run.latest["groups"]["error.mean"] <= 1


def test_a_layer_over_published_records_has_their_guarantee():
    published = {"name": "published", "use": "data_perturbation", "epsilon": 5.0}
    layers = published, LOCAL | {"records": "published"}, GROUPS | {"epsilon": math.inf}
    data = DATA | {"train": 40, "scale": ["minmax", "l1"]}
    run = finished(learning_tree(*layers, number=20, data=data, cycles=3))
    assert guarantees(run)["groups"] == guarantees(run)["published"] == "ε = 5 per record, proven"
    assert run.layer("groups").number == 5
    assert isinstance(run.raw, RawRecords)


# Many


@needs_jit
def test_ten_thousand_nodes_take_well_under_a_second_per_cycle():
    import time

    keys = {"peers": "peers", "formation": "overlay", "group": 10, "aggregation_epsilon": 0.5}
    run = simulation(table(number=10_000, cycles=9, **keys))
    layer, seconds = run.layer("groups"), []
    for _ in range(8):
        run.world.advance()
        for each in run.layers.values():
            each.start(run.world, run.world.fresh)
        for below in ("peers", "local"):
            run.layer(below).step(run.world)
        started = time.perf_counter()
        layer.step(run.world)
        seconds.append(time.perf_counter() - started)
    assert layer.number > 500
    assert np.median(seconds) < 0.5
