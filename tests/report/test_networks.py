"""Degrees, rasters and drawings of small networks."""

import matplotlib as mpl
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from golfsim.core.errors import UserError
from golfsim.report import networks
from golfsim.sim.log import noted


@pytest.fixture(autouse=True)
def _closed():
    mpl.use("Agg")
    yield
    mpl.pyplot.close("all")


def links(cycles=(1, 2)):
    """A star in the first cycle, a ring in the others; two runs."""
    star, ring = [(i, 0) for i in range(1, 5)], [(i, (i + 1) % 5) for i in range(5)]
    rows = [
        (run, run, cycle, "peers", a, b)
        for run in (1, 2)
        for cycle in cycles
        for a, b in (star if cycle == 1 else ring)
    ]
    return pd.DataFrame(rows, columns=["run", "seed", "cycle", "layer", "source", "target"])


def nodes(cycles=(1, 2)):
    """Node i has the error i/10 over the cycle, and node 4 is offline after the first cycle."""
    rows = [
        (run, run, cycle, "learning", node, online, node / 10 / cycle if online else np.nan)
        for run in (1, 2)
        for cycle in cycles
        for node in range(5)
        for online in [node < 4 or cycle == 1]
    ]
    return pd.DataFrame(rows, columns=["run", "seed", "cycle", "layer", "node", "online", "error"])


def cumulated(line):
    """The share of nodes with at most a degree, by degree."""
    return {x: y for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True) if np.isfinite(x)}


def test_degrees_from_links_are_those_of_all_nodes():
    star, ring = networks.degrees(links()).lines
    assert [star.get_label(), ring.get_label()] == ["peers, cycle 1", "peers, cycle 2"]
    assert cumulated(star) == pytest.approx({0: 0.8, 4: 1})
    assert cumulated(ring) == pytest.approx({1: 1})
    lonely = pd.concat([nodes(), nodes().query("node == 0").assign(node=9)])  # no link in any cycle
    star, ring = networks.degrees(links(), lonely).lines
    assert cumulated(star) == pytest.approx({0: 5 / 6, 4: 1})
    assert cumulated(ring) == pytest.approx({0: 2 / 5, 1: 1})  # node 4 is offline, so that nothing points to node 0


def test_counted_degrees_are_summed_over_runs_and_cycles_can_be_chosen():
    rows = [(run, cycle, "peers", degree, run) for run in (1, 3) for cycle in (1, 5, 9) for degree in (2, cycle + 2)]
    table = pd.DataFrame(rows, columns=["run", "cycle", "layer", "degree", "count"])
    (line,) = networks.degrees(table, cycles=[5]).lines
    assert cumulated(line) == pytest.approx({2: 0.5, 7: 1})
    found = networks.degree_counts(table[(table["run"] == 1) | (table["degree"] == 2)], cycles=[9])
    assert found.set_index("degree")["count"].to_dict() == {2: 4, 11: 1}
    with pytest.raises(UserError, match="quantiles of in-degrees only"):
        networks.degrees(pd.DataFrame({"metric": ["indegree.mean"]}))


def test_overlays_at_one_cycle_differ_in_colour_and_cycles_of_one_overlay_too():
    both = pd.concat([links(), links().assign(layer="others")])
    one, other = networks.degrees(both, cycles=[2]).lines
    assert one.get_color() != other.get_color()
    early, late = networks.degrees(links()).lines
    assert early.get_color() != late.get_color()


def test_the_colour_of_offline_nodes_does_not_occur_among_those_of_errors():
    colours = mpl.colormaps[networks.COLOURS](np.linspace(0, 1, 256))[:, :3]
    assert np.ptp(mpl.colors.to_rgb(networks.OFFLINE)) == 0  # grey
    assert np.ptp(colours, axis=1).min() > 0.2  # far from any grey
    texts = networks.raster(nodes()).get_legend().get_texts()
    assert [text.get_text() for text in texts] == ["offline"]


def test_an_isolated_node_does_not_squeeze_the_others():
    some = np.random.default_rng(1)
    ends = some.integers(0, 60, (300, 2))
    table = pd.DataFrame({"source": ends[:, 0], "target": ends[:, 1], "run": 1, "cycle": 1, "layer": "peers"})
    alone = pd.DataFrame({"node": [*range(60), 99]})
    found = networks.places(table, alone)
    inner = np.array([place for node, place in found.items() if node < 60])
    assert np.ptp(inner, axis=0).min() > 0.85
    assert inner.min() >= 0
    assert inner.max() <= 1
    gap = np.sort(np.linalg.norm(inner[:, None] - inner[None], axis=2), axis=1)[:, 1]
    assert np.linalg.norm(inner - found[99], axis=1).min() > np.median(gap) / 2


def test_two_halves_of_a_partition_get_the_same_area():
    halves = [(a, a + 1 if a % 10 < 9 else a - 9) for a in range(20)]
    table = pd.DataFrame(halves, columns=["source", "target"]).assign(run=1, cycle=1, layer="peers")
    found = networks.places(table)
    boxes = [np.array([found[node] for node in range(start, start + 10)]) for start in (0, 10)]
    apart = (boxes[0].min(axis=0) > boxes[1].max(axis=0)) | (boxes[1].min(axis=0) > boxes[0].max(axis=0))
    assert apart.any()
    assert np.ptp(boxes[0], axis=0) == pytest.approx(np.ptp(boxes[1], axis=0), rel=0.5)


def test_a_cycle_that_was_not_measured_is_reported():
    with pytest.raises(UserError, match="cycle 7 was not measured") as caught:
        networks.drawing(links(), cycle=7)
    assert caught.value.hint == "the nearest measured cycle is 2"


def test_a_raster_has_the_errors_of_the_first_run_and_shows_who_is_offline():
    ax = networks.raster(nodes())
    offline, errors = ax.collections
    shown = errors.get_array()
    np.testing.assert_allclose(shown[:4], [[0, 0], [0.1, 0.05], [0.2, 0.1], [0.3, 0.15]])
    assert shown.mask.tolist() == [[False, False]] * 4 + [[False, True]]
    assert (~offline.get_array().mask).tolist() == [[False, False]] * 4 + [[False, True]]


def test_a_raster_needs_nodes_that_learn():
    with pytest.raises(UserError, match="has an error"):
        networks.raster(nodes().assign(error=np.nan))
    with pytest.raises(UserError, match="no layer “learnin”"):
        networks.raster(nodes(), "learnin")


def test_cells_lie_around_their_values():
    assert networks.between(np.array([1.0, 2, 4]), log=False).tolist() == [0.5, 1.5, 3, 5]
    np.testing.assert_allclose(
        networks.between(np.array([1.0, 10, 100]), log=True), 10 ** np.array([-0.5, 0.5, 1.5, 2.5])
    )
    low, high = networks.between(np.array([5.0]), log=True)
    assert low < 5 < high


def test_a_drawing_has_the_links_and_nodes_of_its_cycle():
    table = noted(links(), ["generated"])
    ax = networks.drawing(table, nodes(), cycle=2)
    lines, on, off = ax.collections
    assert len(lines.get_segments()) == 5
    np.testing.assert_allclose(on.get_array(), [0, 0.05, 0.1, 0.15])
    assert len(off.get_offsets()) == 1
    assert ax.get_title(loc="left") == "generated\npeers after cycle 2: 5 links"
    places = networks.places(links()[links()["run"] == 1], nodes())
    np.testing.assert_allclose(off.get_offsets()[0], places[4])
    np.testing.assert_allclose(lines.get_segments()[0], [places[0], places[1]])


def test_nodes_can_be_drawn_by_online_state_or_without_a_table():
    on, off = networks.drawing(links(), nodes(), colour="online").collections[1:]
    assert on.get_array() is None
    assert (len(on.get_offsets()), len(off.get_offsets())) == (4, 1)
    assert len(networks.drawing(links()).collections[1].get_offsets()) == 5
    with pytest.raises(UserError, match="got “age”"):
        networks.drawing(links(), colour="age")


def test_an_animation_has_a_picture_for_each_cycle_and_changes_nothing_global(tmp_path):
    before = dict(mpl.rcParams)
    networks.animation(links((1, 2, 3)), nodes((1, 2, 3)), tmp_path / "moving.gif")
    with Image.open(tmp_path / "moving.gif") as picture:
        assert picture.n_frames == 3
    assert dict(mpl.rcParams) == before
    assert not mpl.pyplot.get_fignums()


def test_a_long_run_is_animated_by_some_of_its_cycles():
    shown = networks.some_cycles(pd.DataFrame({"cycle": np.arange(1, 1001)}))
    assert len(shown) == networks.FRAMES
    assert (shown[0], shown[-1]) == (1, 1000)
