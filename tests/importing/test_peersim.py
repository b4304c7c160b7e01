"""Configurations of PeerSim and GoLF become scenarios; what they lose is stated line by line."""

import re
import tomllib
from functools import partial

import pytest
from helpers import HERE, command, learning_tree
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.importing import known, supported
from golfsim.importing.outcomes import LEFT_OUT, NEEDLESS, TRANSLATED
from golfsim.importing.peersim import translate
from golfsim.importing.properties import Properties, read
from golfsim.network.churn import RateConfig
from golfsim.scenario.model import Scenario

CYCLES = """
random.seed 7
simulation.cycles 30
network.size SIZE
SIZE 50
control.shf Shuffle
protocol.lnk example.newscast.SimpleNewscast
{
  cache 20
}
protocol.avg example.aggregation.AverageFunction
protocol.avg.linkable lnk
init.rnd WireKOut
init.rnd.k 20
init.rnd.protocol lnk
control.seen SingleValueObserver
control.seen.protocol avg
"""
LEARNING = """
N 40          # nodes
C 9
LAMBDA 1E-4
network.size N
simulation.endtime (C+1)*N
simulation.logtime N
random.seed 5
protocol.ur UniformRandomTransport
protocol.ur.mindelay N
protocol.ur.maxdelay 3.0*N
protocol.tr UnreliableTransport
protocol.tr.transport ur
protocol.tr.drop 0.25
protocol.overlay gossipLearning.overlays.ChurnableNewscast
protocol.overlay.transport tr
protocol.overlay.cache 5
protocol.overlay.baseFreq N
protocol.learn gossipLearning.protocols.LearningProtocol
protocol.learn.linkable overlay
protocol.learn.transport tr
protocol.learn.delayMean N
protocol.learn.learner.Svm gossipLearning.models.learning.P2Pegasos
protocol.learn.learner.Svm.lambda LAMBDA
protocol.learn.learner.Merged gossipLearning.models.learning.mergeable.MergeableLogReg
protocol.learn.learner.Merged.lambda 0.01
protocol.learn.learner.Rule gossipLearning.models.learning.Perceptron
protocol.learn.learner.Rule.lambda 0.01
init.load gossipLearning.controls.InstanceLoader
init.load.trainingFile train.svmlight
init.load.evaluationFile test.svmlight
init.load.normalization 1
control.churn gossipLearning.controls.ChurnControl
control.churn.protocol learn
control.churn.step 2*N
control.churn.size 0.5*N
control.churn.mu 1
control.churn.sigma 0.5
control.seen gossipLearning.controls.PredictionObserver
control.seen.step N
control.seen.protocol learn
"""
RECORDS = "".join(f"{2 * (i % 2) - 1} 1:{i % 7 / 7} 2:{i % 5 / 5}\n" for i in range(80))


@pytest.fixture
def golfsim_(capsys, monkeypatch):
    """Run a command in this process: (exit status, output, errors)."""
    return partial(command, capsys, monkeypatch)


def tree(text, **options):
    """Return the scenario of a configuration as a tree; it is checked, too."""
    found = tomllib.loads(translate(text, "a.txt", **options).text)
    Scenario.of(found)
    return found


def layer(found, name):
    return next(table for table in found["protocol"] if table["name"] == name)


def left_out(text):
    """Return the lines that are left out or have a remark."""
    return {note.line: str(note) for note in translate(text, "a.txt").notes}


def value(expression, **names):
    text = "\n".join([f"x {expression}", *(f"{name} {one}" for name, one in names.items())])
    return Properties(text, "a.txt").number("x")


def test_a_cycle_driven_configuration_is_translated():
    found = tree(CYCLES)
    assert (found["seed"], found["cycles"], found["order"]) == (7, 30, "shuffled")
    assert found["nodes"]["number"] == 50
    assert layer(found, "lnk") == {"name": "lnk", "use": "newscast", "view": 20}
    assert layer(found, "avg") == {"name": "avg", "use": "averaging", "peers": "lnk"}
    assert found["observe"] == {"every": 1}


def test_a_cycle_that_begins_before_the_end_is_counted():
    text = LEARNING.replace("(C+1)*N", "C*N+1")
    assert tomllib.loads(translate(text, "a.txt").text)["cycles"] == 10


def test_a_file_with_control_characters_gives_valid_toml():
    text = CYCLES + "control.x my.\x01Own\x7f\nprotocol.\x02y a\x1b\n"
    assert tree(text)["cycles"] == 30


def test_what_is_translated_runs():
    from golfsim.sim.simulation import Simulation

    simulation = Simulation(Scenario.of(tree(CYCLES.replace("cycles 30", "cycles 5"))))
    assert [cycle for cycle in simulation][-1] == 5
    assert simulation.layer("avg").observe(simulation.world)["value.variance"] < 1 / 12 / 10


def test_an_event_driven_configuration_of_golf_is_translated_and_checked(tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"{name}.svmlight").write_text(RECORDS)
    done = translate(LEARNING, "a.txt")
    (tmp_path / "a.toml").write_text(done.text, encoding="utf-8")
    scenario = Scenario.load(tmp_path / "a.toml")
    found = tomllib.loads(done.text)
    assert scenario.cycles == 10  # turns at 0, 40, … 360 in GoLF
    assert found["transport"] == {"loss": 0.25, "delay": [1, 3]}
    assert layer(found, "overlay")["view"] == 5
    assert layer(found, "overlay")["liveness"] == "none"
    assert layer(found, "Svm")["variant"] == "rw"
    assert layer(found, "Merged").items() >= {
        "name": "Merged", "use": "golf", "peers": "overlay", "records": "raw", "learner": "logistic", "lambda": 0.01,
        "variant": "mu", "average": "age", "batch": "one-by-one",
    }.items()  # fmt: skip
    assert found["data"]["scale"] == ["minmax"]
    churn = found["churn"][0]
    assert (churn["online"], churn["sigma"]) == (0.5, 0.5)
    assert churn["mu"] == pytest.approx(1.6931471805599454)  # sessions are counted in steps of the control: 2 cycles


def test_the_scenario_of_golf_passes_check(golfsim_, tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"{name}.svmlight").write_text(RECORDS)
    (tmp_path / "a.txt").write_text(LEARNING)
    status, output, _ = golfsim_("import", "peersim", tmp_path / "a.txt", "--out", tmp_path / "a.toml")
    assert status == 0
    assert "line 27: protocol.learn.learner.Rule" in output
    assert golfsim_("check", tmp_path / "a.toml")[0] == 0


def test_a_missing_data_file_is_noted_and_is_the_only_problem(golfsim_, tmp_path):
    (tmp_path / "a.txt").write_text(LEARNING)
    _, output, _ = golfsim_("import", "peersim", tmp_path / "a.txt", "--out", tmp_path / "a.toml")
    assert "line 30: init.load.trainingFile: there is no file train.svmlight" in output
    with pytest.raises(UserError) as caught:
        Scenario.load(tmp_path / "a.toml")
    problems = caught.value.messages
    assert len(problems) == 2
    assert all("data." in problem and "there is no file" in problem for problem in problems)


def test_data_files_are_found_above_the_configuration(golfsim_, tmp_path):
    (tmp_path / "res/config").mkdir(parents=True)
    (tmp_path / "train.svmlight").write_text(RECORDS)
    (tmp_path / "res/config/a.txt").write_text(LEARNING)
    _, output, _ = golfsim_("import", "peersim", tmp_path / "res/config/a.txt", "--out", tmp_path / "res/a.toml")
    assert "trainingFile: there is no file" not in output
    assert tomllib.loads((tmp_path / "res/a.toml").read_text())["data"]["file"] == "../train.svmlight"


def test_the_command_prints_a_scenario_and_overwrites_none(golfsim_, tmp_path):
    (tmp_path / "a.txt").write_text(CYCLES)
    status, output, errors = golfsim_("import", "peersim", tmp_path / "a.txt")
    assert status == 0
    assert tomllib.loads(output)["cycles"] == 30
    assert "10 translated, 4 needs no setting, 0 left out" in errors
    (tmp_path / "b.toml").write_text("mine")
    status, _, errors = golfsim_("import", "peersim", tmp_path / "a.txt", "--out", tmp_path / "b.toml")
    assert status == 2
    assert "already exists" in errors
    assert (tmp_path / "b.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.txt"], "nowhere.txt: No such file"),
        (["a.txt", "--define", "X"], "expected NAME=VALUE"),
        (["a.txt"], "a.txt:1: simulation.cycles: expected a number"),
    ],
)
def test_a_mistake_ends_in_a_message(golfsim_, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("simulation.cycles 3 +\nnetwork.size 5")
    status, _, errors = golfsim_("import", "peersim", *words)
    assert status == 2
    assert message in errors


def test_each_line_has_an_outcome():
    for text in (CYCLES, LEARNING):
        counts = translate(text, "a.txt").counts
        assert sum(counts.values()) == len(read(text, "a.txt"))
    assert translate(CYCLES, "a.txt").counts == {TRANSLATED: 10, NEEDLESS: 4, LEFT_OUT: 0}


def test_notes_have_line_key_reason_and_what_to_do():
    text = CYCLES + "protocol.mine my.Own\nprotocol.mine.k 3\nprotocol.avg.linkabel lnk\n"
    notes = {note.key: note for note in translate(text, "a.txt").notes}
    assert notes["protocol.mine"].line == 18
    assert "my.Own is not known" in notes["protocol.mine"].what
    assert "golfsim new protocol" in notes["protocol.mine"].todo
    assert "ignores it" in notes["protocol.avg.linkabel"].what
    assert "# line 18: protocol.mine" in translate(text, "a.txt").text


@pytest.mark.parametrize(
    ("wiring", "expected"),
    [
        ("WireKOut\ninit.w.k 4", {"neighbours": 4}),
        ("WireRingLattice\ninit.w.k 4", {"generator": "circulant_graph", "arguments": {"offsets": [1, 2]}}),
        ("WireWS\ninit.w.k 4\ninit.w.beta 0.1", {"generator": "watts_strogatz_graph", "arguments": {"k": 4, "p": 0.1}}),
        ("WireScaleFreeBA\ninit.w.k 4", {"generator": "barabasi_albert_graph", "arguments": {"m": 4}}),
        ("WireRegRootedTree\ninit.w.k 4", {"generator": "full_rary_tree", "arguments": {"r": 4}}),
        ("WireStar", {"generator": "full_rary_tree", "arguments": {"r": 49}}),
        ("WireFromFile\ninit.w.file g.txt\ninit.w.undir", {"file": "g.txt", "directed": False}),
    ],
)
def test_wiring_becomes_a_static_overlay(wiring, expected):
    text = CYCLES.replace("example.newscast.SimpleNewscast", "IdleProtocol").replace("  cache 20", "  capacity 20")
    head, _, tail = text.partition("init.rnd WireKOut\ninit.rnd.k 20\ninit.rnd.protocol lnk\n")
    found = layer(tree(f"{head}init.w {wiring}\ninit.w.protocol lnk\n{tail}"), "lnk")
    assert found == {"name": "lnk", "use": "static_overlay"} | expected


def test_a_graph_without_known_links_becomes_uniform_with_a_note():
    text = CYCLES.replace("example.newscast.SimpleNewscast", "IdleProtocol").replace("WireKOut", "my.Wires")
    assert layer(tree(text), "lnk")["use"] == "uniform"
    assert "every node knows all others" in left_out(text)[7]


def test_a_schedule_counts_from_one_and_until_is_the_last_cycle():
    text = CYCLES + "protocol.avg.from 5\nprotocol.avg.until 10\nprotocol.avg.step 2\n"
    found = layer(tree(text), "avg")
    assert (found["first"], found["until"], found["every"]) == (6, 10, 2)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("add -5\nfrom 5\nuntil 7", [{"kind": "crash", "at": 6, "number": 5}, {"kind": "crash", "at": 7, "number": 5}]),
        ("add -0.5\nat 3\nminsize 30", [{"kind": "crash", "at": 4, "number": 20}]),
        ("add 5\nfrom 1\nuntil 4", [{"kind": "join", "number": 15, "from": 2, "until": 4}]),
        (
            "add 0.02\nsubstitute",
            [{"kind": "rate", "leave": 0.02, "rejoin": 1.0, "online": 1.0, "return": "afresh"}],
        ),
    ],
)
def test_dynamic_networks_become_churn(keys, expected):
    text = CYCLES + "control.d DynamicNetwork\n{\n" + keys + "\n}\n"
    found = tree(text)
    assert found["churn"] == expected
    assert found["nodes"]["number"] == 50 + (15 if expected[0]["kind"] == "join" else 0)


def test_an_oscillating_network_has_twice_the_period_of_its_sine():
    text = CYCLES + "control.d OscillatingNetwork\n{\nmaxsize 60\nminsize 30\nperiod 5\n}\n"
    assert tree(text)["churn"] == [{"kind": "oscillating", "low": 0.5, "period": 10, "return": "afresh"}]


def test_included_components_are_the_only_ones():
    text = CYCLES + "control.more my.Own\ncontrol.more.k 1\ninclude.control shf seen\n"
    done = translate(text, "a.txt")
    assert done.counts[LEFT_OUT] == 0
    assert "leaves it out in PeerSim, too" in left_out(text)[18]


def test_placeholders_and_properties_can_be_given():
    text = CYCLES.replace("SIZE 50", "SIZE ${NODES}")
    with pytest.raises(UserError, match=r"a.txt:5: SIZE: “\$\{NODES\}” has no value\n.*--define NODES=VALUE"):
        translate(text, "a.txt")
    found = tree(text, define={"NODES": "70", "simulation.cycles": "4"})
    assert (found["nodes"]["number"], found["cycles"]) == (70, 4)


def test_a_token_account_is_a_flow():
    text = LEARNING.replace("protocols.LearningProtocol", "protocols.TokenLearningProtocol")
    text += (
        "protocol.learn.strategy randomized\nprotocol.learn.A 10\nprotocol.learn.B 20\nprotocol.learn.permutation 0\n"
    )
    found = layer(tomllib.loads(translate(text, "a.txt").text), "Merged")
    assert found["flow"] == {"kind": "randomised", "capacity": 20, "spend": 10}
    assert found["variant"] == "own"


def test_softmax_has_the_steps_of_golf():
    old, new = "mergeable.MergeableLogReg", "mergeable.MergeableMultiLogReg"
    found = layer(tomllib.loads(translate(LEARNING.replace(old, new), "a.txt").text), "Merged")
    assert found["learner"] == {"use": "softmax", "rate": 100.0, "fade": 1.0}  # 1/(λt)


def test_k_means_is_translated_where_golfsim_has_it(monkeypatch):
    text = LEARNING.replace("models.learning.Perceptron", "models.clustering.HungarianMatchingKMeans")
    text += "protocol.learn.learner.Rule.K 3\nprotocol.learn.learner.Rule.wsize 125.0\n"
    monkeypatch.setattr(supported, "learners", lambda: ["pegasos", "logistic", "kmeans"])
    found = layer(tomllib.loads(translate(text, "a.txt").text), "Rule")
    assert found["learner"] == {"use": "kmeans", "clusters": 3, "window": 250.0}
    assert found["variant"] == "mu"
    assert "lambda" not in found
    monkeypatch.setattr(supported, "learners", lambda: ["pegasos", "logistic"])
    assert "no learner that is known to be HungarianMatchingKMeans" in left_out(text)[27]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1+2*3", 7), ("(1+2)*3", 9), ("7/2", 3), ("-7/2", -3), ("-7%3", -1), ("7.0/2", 3.5), ("2^10", 1024),
        ("-2^2", -4), ("2^-1.0", 0.5), ("2^3^2", 512), ("1E-4", 1e-4), (".5*4", 2.0), ("--3", 3), ("A/10.0", 9.0),
        ("2^(-A/90+1)", 1), ("1-2-3", -4), ("8/4/2", 1),
    ],
)  # fmt: skip
def test_expressions_have_the_values_of_peersim(expression, expected):
    found = value(expression, A="B*2", B="45")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "expression",
    ["1+", "(1", "1)", "", "1 2", "a b", "1/0", "1.0/0", "2^-1", "9^9^9", "x", "Q", "__import__('os')", "1;2", "'a'",
     "(" * 5000 + "1" + ")" * 5000, "1e300*1e300", "0.0^(-1.0)", "(-1.0)^0.5"],
)  # fmt: skip
def test_what_has_no_value_is_refused_with_its_line(expression):
    with pytest.raises(UserError, match=r"^a.txt:1: x"):
        value(expression)


def test_names_that_need_each_other_are_refused():
    with pytest.raises(UserError, match="refer to each other"):
        value("A", A="B", B="A")
    names = {f"A{i}": f"A{i + 1}+A{i + 1}" for i in range(60)} | {"A60": "1"}
    assert value("A0", **names) == 2**60  # each name is evaluated once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b 1\n}\n", "a.txt:2: “}” without “{”"),
        ("{\n}\n", "a.txt:1: “{” without a property"),
        ("a.b 1\n{\n c 2\n", "a.txt:2: this “{” has no “}”"),
        ("a.b 1\n{\n}\na.b 1\n{\n}\n", "a.txt:5: a second block"),
        ("network.size 5\n", "a.txt:1: neither simulation.cycles nor simulation.endtime"),
        ("simulation.cycles 5\n", "a.txt:1: network.size: missing"),
        ("simulation.cycles 0\nnetwork.size 5\n", "a.txt:1: simulation.cycles: expected 1 to"),
        ("simulation.cycles 5\nnetwork.size many\n", "a.txt:2: network.size: “many” has no value"),
        ("simulation.cycles 5\nnetwork.size 5\ninclude.init a\n", "a.txt:3: include.init: there is no “init.a”"),
        ("simulation.endtime 5\nnetwork.size 5\n", "a.txt:1: simulation.endtime: the length of a cycle is not known"),
    ],
)
def test_mistakes_have_file_line_and_what_is_expected(text, message):
    with pytest.raises(UserError) as caught:
        translate(text, "a.txt")
    assert str(caught.value).startswith(message)
    assert caught.value.placed


def test_lines_are_read_as_peersim_reads_them():
    text = "a.b one # comment\n\nc=2\r\nd:3\re  long \\\n  line\nx X\n{\ny 1\nz Z\n{\nw\n}\n}\n"
    found = [(entry.key, entry.value) for entry in read(text, "a.txt")]
    assert found == [
        ("a.b", "one"), ("c", "2"), ("d", "3"), ("e", "long line"), ("x", "X"), ("x.y", "1"), ("x.z", "Z"),
        ("x.z.w", ""),
    ]  # fmt: skip


def test_components_are_ordered_as_in_peersim():
    text = "p.b B\np.a A\np.c C\np.a.x 1\n"
    assert Properties(text, "").names("p") == ["p.a", "p.b", "p.c"]
    assert Properties(text + "order.p c", "").names("p") == ["p.c", "p.a", "p.b"]
    assert Properties(text + "include.p c,a\norder.p b", "").names("p") == ["p.c", "p.a"]


def test_settings_of_later_versions_are_written_only_where_they_exist():
    assert supported.has("newscast", "view", 20)
    assert not supported.has("newscast", "view", 0)
    assert not supported.has("newscast", "no_such_setting", 1)
    assert supported.accepts(RateConfig, "from", 3)
    assert not supported.accepts(RateConfig, "start", 3)


def test_conventions_of_golf_are_settings_where_they_exist(monkeypatch):
    text = LEARNING.replace("baseFreq N", "baseFreq N/10.0") + "protocol.learn.delayVar N/10.0\n"
    monkeypatch.setattr(supported, "has", lambda *setting: False)
    found = tomllib.loads(translate(text, "a.txt").text)
    assert not {"times", "on_return_state", "contacts"} & set(layer(found, "overlay"))
    assert not {"tie", "jitter", "on_return"} & set(layer(found, "Svm"))
    assert "acts 10 times per cycle" in left_out(text)[18]
    monkeypatch.setattr(supported, "has", lambda *setting: True)
    found = tomllib.loads(translate(text, "a.txt").text)
    wanted = {"times": 10, "on_return_state": "afresh", "contacts": 5}
    assert layer(found, "overlay").items() >= wanted.items()
    assert layer(found, "Svm").items() >= {"tie": "first", "jitter": 0.1, "on_return": "send"}.items()
    assert 18 not in left_out(text)


def test_every_known_class_has_the_source_in_which_it_was_read():
    classes = known.PROTOCOLS | known.INITIALISERS | known.CONTROLS
    beginnings = known.PEERSIM, known.EXTRAS, known.EXAMPLE, known.GOLF, "p2pChurn.jar"
    assert all(one.source.startswith(beginnings) for one in classes.values())
    assert all(one.source.endswith(".java") for one in known.LEARNERS.values())


WORDS = st.sampled_from(
    [
        *known.PROTOCOLS, *known.INITIALISERS, *known.CONTROLS, *known.LEARNERS, "0", "1", "-3", "0.5", "N", "1/0", "a",
        "lnk", "avg", "1e400", "${X}", "{", "}", "\\", "3*N", "é\x7f", "gossipLearning.models.P2Pegasos", "9^99",
    ]
)  # fmt: skip
KEYS = sorted({key for one in (known.PROTOCOLS | known.INITIALISERS | known.CONTROLS).values() for key in one.keys})
LINES = st.tuples(
    st.sampled_from(["protocol.lnk", "protocol.avg", "protocol.a", "init.a", "init.b", "control.a", "control.b", "x"]),
    st.sampled_from(["", *known.SCHEDULE, *KEYS]),
    WORDS,
)


@given(st.lists(LINES, max_size=25), st.sampled_from([CYCLES, LEARNING]))
def test_any_file_is_translated_or_refused_with_a_message(lines, base):
    text = base + "".join(f"{name}{'.' * bool(key)}{key} {word}\n" for name, key, word in lines)
    try:
        done = translate(text, "a.txt", {"X": "5"})
    except UserError as error:
        refused = str(error)
        done = None
    if done is None:
        assert refused.startswith("a.txt:")
        return
    tomllib.loads(done.text)
    assert sum(done.counts.values()) == len(read(text, "a.txt"))


def test_the_settings_that_the_page_names_exist():
    page = (HERE.parent / "docs" / "peersim.md").read_text()
    quoted = re.findall(r"`((?:flow|message) = \{[^`…]*\})`", page)
    assert len(quoted) > 5
    for setting in quoted:
        table = tomllib.loads(re.sub(r"= [A-Z]\b", "= 3", setting))  # A and B are GoLF's names of numbers
        layer = {"name": "subject", "use": "golf", "peers": "peers", "records": "raw", "variant": "own"} | table
        Scenario.of(learning_tree({"name": "peers", "use": "uniform"}, layer))
