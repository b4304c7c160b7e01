"""Files of measured sessions: GoLF's, FedScale's, CSV with any columns; and availability that follows the day."""

import json
import math

import numpy as np
import pytest
from helpers import ALPHA, HERE, finished, simulation, tree
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from golfsim.core.errors import UserError
from golfsim.network import churn
from golfsim.network.traces import ColumnsConfig, read_sessions
from golfsim.scenario.model import Scenario

PEERS = {"name": "peers", "use": "uniform"}
# The example in a comment of FedScale's client code (core/helper/client.py).
CLIENT = {
    "duration": 211625,
    "inactive": [65881, 133574, 208292, 276575, 295006, 356236, 400906, 475099],
    "finish_time": 518400,
    "active": [12788, 100044, 188992, 271372, 276663, 352625, 356267, 441193],
    "model": "CPH1801",
}


def model(folder, nodes=1, kind="trace", **table):
    """A churn model of its own; the user's numbers are the nodes' own."""
    config = Scenario.of(tree(PEERS, churn={"kind": kind} | table), HERE).churn[0]
    return churn.build((config,), 1, np.arange(nodes, dtype=np.int32), folder)[0]


def history(made, cycles):
    """Who is up in each cycle 1 … cycles: [cycles, nodes]."""
    seen = []
    for cycle in range(1, cycles + 1):
        made.step(cycle)
        seen.append(made.up.copy())
    return np.array(seen)


def naive_golf_session(line, time):
    """Whether the user of a line is online at a time in milliseconds, as GoLF's TraceChurn has it; offline at last."""
    _, online, _, _, *lengths = line.split()
    up = online == "1"
    for length in lengths:
        time -= int(length)
        if time < 0:
            return up
        up = not up
    return False


def naive_fedscale_active(client, time):
    """Whether a client is active, as FedScale decides it, but for the last second of an interval."""
    time %= client["finish_time"]
    return any(a <= time < b for a, b in zip(client["active"], client["inactive"], strict=True))


# ------------------------------------------------------------------------------------------------ session files of GoLF

LINES = [
    "user/a 1 1402358400000 2 2000 3000 1500 500 4000",
    "user/a 0 1402963200000 2 1000 2500 7500",
    "user/b 0 1402358400000 -5 11000",
]


def golf_file(folder, lines=LINES):
    path = folder / "sessions.txt"
    path.write_text("\n".join(lines) + "\n\n")
    return path


@pytest.mark.parametrize("form", [None, "peersim"])
def test_a_session_file_of_golf_has_one_trace_per_line(tmp_path, form):
    golf_file(tmp_path)
    made = model(tmp_path, 3, file="sessions.txt", cycle_seconds=0.5, **({"format": form} if form else {}))
    expected = [[naive_golf_session(line, 500 * (cycle - 1)) for line in LINES] for cycle in range(1, 30)]
    assert history(made, 29).tolist() == expected
    assert np.array(expected)[:, :2].any(axis=0).all()


@given(
    lines=st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 5000), min_size=1, max_size=8)), min_size=1, max_size=5
    )
)
def test_any_session_file_is_read_as_golf_reads_it(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("golf")
    texts = [f"u {int(online)} 0 0 {' '.join(map(str, lengths))}" for online, lengths in lines]
    golf_file(folder, texts)
    made = model(folder, len(texts), file="sessions.txt", cycle_seconds=1.0)
    assert history(made, 12).tolist() == [[naive_golf_session(t, 1000 * c) for t in texts] for c in range(12)]


def test_a_trace_that_repeats_begins_again_after_its_own_end(tmp_path):
    golf_file(tmp_path)
    made = model(tmp_path, 3, file="sessions.txt", cycle_seconds=0.5, after="repeat")
    assert history(made, 44)[22:].tolist() == history(made, 22).tolist()  # all lines have 11 seconds


def test_a_session_file_needs_the_length_of_a_cycle(tmp_path):
    golf_file(tmp_path)
    with pytest.raises(UserError, match=r"sessions\.txt has times in seconds") as caught:
        model(tmp_path, 3, file="sessions.txt")
    assert caught.value.key == "churn.0.cycle_seconds"
    with pytest.raises(UserError, match="cycle_seconds: required"):
        model(tmp_path, 3, file="sessions.txt", format="peersim")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("a 2 0 0 5", "expected a name, 0 or 1"),
        ("a 1 0", "expected a name, 0 or 1"),
        ("a 1 0 0 5 x", "as integers"),
        ("a 1 0 0 5 99999999999999999999999", "as integers"),
        ("a 1 0 0 5 -3", "at least 0"),
    ],
)
def test_a_wrong_line_of_a_session_file_is_named(tmp_path, line, what):
    path = golf_file(tmp_path, [LINES[0], line])
    with pytest.raises(UserError, match=rf"sessions\.txt:2: .*{what}"):
        read_sessions(path, "peersim")


# ------------------------------------------------------------------------------------------------ FedScale


def test_the_availability_of_fedscale_repeats_after_its_end(tmp_path):
    other = {"active": [0, 50], "inactive": [10], "finish_time": 100}  # still active at the end
    (tmp_path / "avail.json").write_text(json.dumps({"7": CLIENT, "12": other}))
    made = model(tmp_path, 2, file="avail.json", cycle_seconds=7200)
    seen = history(made, 200)
    assert seen[:, 0].tolist() == [naive_fedscale_active(CLIENT, 7200 * c) for c in range(200)]
    whole = other | {"inactive": [10, 100]}
    assert seen[:, 1].tolist() == [naive_fedscale_active(whole, 7200 * c) for c in range(200)]
    assert not history(model(tmp_path, 2, file="avail.json", cycle_seconds=7200, after="end"), 200)[73:].any()
    found = read_sessions(tmp_path / "avail.json")
    assert (found.end - found.begin)[found.node == 7].sum() == CLIENT["duration"]


@pytest.mark.parametrize("content", [b"\x80\x04}q\x00.", b"(dp0\n."])
def test_a_pickle_is_refused_unread(tmp_path, content):
    (tmp_path / "avail.json").write_bytes(content)
    with pytest.raises(UserError, match="a pickle can run any program") as caught:
        read_sessions(tmp_path / "avail.json")
    assert "json.dump" in caught.value.hint
    (tmp_path / "avail.pkl").write_text("{}")
    with pytest.raises(UserError, match="a pickle can run any program"):
        read_sessions(tmp_path / "avail.pkl")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('{"1": {"active": [1], "inactive": [2]}}', "client 1: expected lists"),
        ('{"1": {"active": [3], "inactive": [2], "finish_time": 9}}', "client 1: expected an inactive time"),
        ('{"1": {"active": [3, 4, 5], "inactive": [4], "finish_time": 9}}', "client 1: expected an inactive time"),
        ('{"1": {"active": ["x"], "inactive": [4], "finish_time": 9}}', "client 1: expected lists"),
        ('{"1": 5}', "client 1: expected lists"),
        ("{}", "contains no interval"),
        ("[1]", "expected a table"),
        ("{ nothing", "not a JSON file"),
        ("{" * 100_000, "not a JSON file"),
    ],
)
def test_a_damaged_availability_file_is_refused(tmp_path, content, what):
    (tmp_path / "avail.json").write_text(content)
    with pytest.raises(UserError, match=what):
        read_sessions(tmp_path / "avail.json", "fedscale")


# ------------------------------------------------------------------------------------------------ CSV


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_columns_of_a_csv_file_are_named(tmp_path, delimiter):
    rows = [("device", "x", "start", "seconds"), ("b", 0, 2, 3), ("a", 0, 0, 1), ("b", 0, 7, 1)]
    (tmp_path / "log.csv").write_text("".join(delimiter.join(map(str, row)) + "\n" for row in rows))
    columns = {"node": "device", "from": "start", "length": "seconds"}
    made = model(tmp_path, 2, file="log.csv", columns=columns, cycle_seconds=1.0)
    assert history(made, 9).T.tolist() == [[t < 1 for t in range(9)], [2 <= t < 5 or t == 7 for t in range(9)]]


def test_dates_count_from_the_first_one_in_any_time_zone(tmp_path):
    text = "node,from,until\na,2026-03-01T10:00:00,2026-03-01T10:00:30\nb,2026-03-01T11:00:10+01:00,2026-03-01T10:01\n"
    (tmp_path / "log.csv").write_text(text)
    found = read_sessions(tmp_path / "log.csv", "csv", ColumnsConfig(until="until"))
    assert found.seconds
    assert found.begin.tolist() == [0, 10]
    assert found.end.tolist() == [30, 60]


def test_a_missing_column_is_named(tmp_path):
    (tmp_path / "log.csv").write_text("device,start,end\na,1,2\n")
    with pytest.raises(UserError, match="there is no column “node”") as caught:
        read_sessions(tmp_path / "log.csv", "csv", ColumnsConfig(until="end"))
    assert "device, start, end" in caught.value.hint
    with pytest.raises(UserError, match="expected the columns node, from, until") as caught:
        read_sessions(tmp_path / "log.csv")
    assert "columns" in caught.value.hint


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({"columns": {"node": "a"}}, "“until” or “length”"),
        ({"columns": {"until": "a", "length": "b"}}, "“until” or “length”"),
        ({"columns": {"until": "a"}, "format": "golfsim"}, "columns: requires"),
    ],
)
def test_wrong_settings_of_a_trace_are_refused(tmp_path, table, what):
    with pytest.raises(UserError, match=what):
        model(tmp_path, file="traces/three_nodes.csv", **table)


def test_our_own_format_can_repeat_as_well(tmp_path):
    made = model(HERE, 3, file="traces/three_nodes.csv", after="repeat")
    once = history(model(HERE, 3, file="traces/three_nodes.csv"), 19)
    assert np.array_equal(history(made, 38), np.concatenate([once, once]))


# ------------------------------------------------------------------------------------------------ the day

DAY = {"kind": "diurnal", "online": 0.5, "amplitude": 0.4, "period": 24, "session": 6.0}


def naive_probability(cycle, zone, online, amplitude, period, zones, spread):
    return online + amplitude * math.cos(2 * math.pi * ((cycle - 1) / period - spread * zone / zones))


@pytest.mark.parametrize(("zones", "spread"), [(1, 1.0), (3, 1.0), (4, 0.25)])
def test_the_share_online_follows_the_cosine_of_each_time_zone(zones, spread):
    nodes, cycles = 6000, 60
    made = model(HERE, nodes, **DAY, zones=zones, spread=spread)
    seen = history(made, cycles)
    for cycle in range(1, cycles + 1):
        exact = [naive_probability(cycle, z, 0.5, 0.4, 24, zones, spread) for z in range(zones)]
        assert made.probability(cycle) == pytest.approx(exact, abs=1e-12)
        # one test per cycle, each with the error ALPHA / cycles; zones have equal probability
        assert binomtest(int(seen[cycle - 1].sum()), nodes, float(np.mean(exact))).pvalue > ALPHA / cycles


@given(before=st.floats(0.01, 0.99), now=st.floats(0.01, 0.99), leave=st.floats(0.0, 1.0))
def test_leaving_and_returning_give_the_wanted_probability(before, now, leave):
    left, back = (float(x[0]) for x in churn.turnover(np.array([before]), np.array([now]), leave))
    assert 0 <= left <= 1
    assert 0 <= back <= 1
    assert before * (1 - left) + (1 - before) * back == pytest.approx(now, abs=1e-9)
    if 0 < back < 1:
        assert left == pytest.approx(leave, abs=1e-9)


def test_sessions_are_as_long_as_asked_for_while_the_day_stands_still():
    made = model(HERE, 4000, **(DAY | {"amplitude": 1e-9, "session": 8.0}))
    seen = history(made, 40)
    left = (seen[:-1] & ~seen[1:]).sum()
    assert binomtest(int(left), int(seen[:-1].sum()), 1 / 8).pvalue > ALPHA


@pytest.mark.parametrize(
    ("change", "what"),
    [({"amplitude": 0.3, "online": 0.8}, "amplitude: expected at most 0.2"), ({"session": 0.5}, "session")],
)
def test_impossible_days_are_refused(change, what):
    with pytest.raises(UserError, match=what):
        model(HERE, **(DAY | change))


def test_a_run_with_days_and_repeating_traces_is_a_function_of_the_seed():
    table = tree(PEERS, churn=[DAY, {"kind": "trace", "file": "traces/three_nodes.csv", "assign": "sample",
                                     "after": "repeat"}])  # fmt: skip
    one, two = (finished(table, threads=n).log.values for n in (1, 2))
    assert one == two


# ------------------------------------------------------------------------------------------------ GoLF's rule

GOLF = {"kind": "replacement", "online": 0.8, "mu": 0.5, "sigma": 0.8}


def test_the_number_online_is_constant_and_sessions_have_full_cycles():
    made = model(HERE, 500, **GOLF)
    ends = []
    for cycle in range(1, 200):
        before = made.up.copy() if cycle > 1 else np.zeros(500, np.bool_)
        left = made.end.copy()
        made.step(cycle)
        assert made.up.sum() == 400
        begun = np.flatnonzero(made.up & ~before).tolist() + made.renewed.tolist()
        assert (left[begun] <= cycle).all()
        assert (made.up[before & (left > cycle)]).all()
        for node in begun:
            ends.append(made.end[node] - cycle)
    ends = np.array(ends)
    assert ends.min() == 1
    # rounded log-normal lengths without those that become 0
    found = stats.lognorm(s=0.8, scale=np.exp(0.5))
    whole = [(found.cdf(n + 0.5) - found.cdf(n - 0.5)) / found.sf(0.5) for n in range(1, 6)]
    counts = [(ends == n).sum() for n in range(1, 6)]
    for count, share in zip(counts, whole, strict=True):
        assert binomtest(int(count), len(ends), share).pvalue > ALPHA / 5


def test_a_node_that_begins_the_next_session_at_once_returns_nevertheless():
    peers = {"name": "peers", "use": "newscast", "view": 4, "on_return_state": "afresh"}
    run, renewed = simulation(tree(peers, churn=GOLF, nodes=50, cycles=20)), 0
    for _ in run:
        world, again = run.world, run.world.churn[0].renewed
        assert set(again.tolist()) <= set(world.came.tolist())
        assert (world.since[again] == world.cycle).all()
        renewed += again.size
    assert renewed > 10
