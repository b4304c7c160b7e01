"""Scenario files: what is read, what is refused and how it is told, and changes by path."""

import tomllib

import pytest

from golfsim.core.errors import UserError
from golfsim.protocol.records import RawRecords
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario

GOOD = """\
name = "a test"
seed = 1
cycles = 5

[data]
set = "random"
scale = ["minmax", "l1"]

[nodes]
records = 1

[[protocol]]
name = "peers"
use = "newscast"
view = 20

[[protocol]]
name = "learning"
use = "golf"
peers = "peers"
records = "raw"
learner = "pegasos"

[observe]
every = "log"
nodes = 100
"""
PROTOCOLS = {
    "syntax.py": "def f(:\n    pass\n",
    "raises.py": "import math\n\nx = 1 / 0\n",
    "exits.py": "raise SystemExit(7)\n",
    "mine.py": "from golfsim.protocol import Protocol\n\nclass Mine(Protocol):\n    pass\n\nclass Other:\n    pass\n",
}


@pytest.fixture
def load(tmp_path):
    """Load a scenario given as text, from a folder with some protocol files."""
    for name, content in PROTOCOLS.items():
        (tmp_path / name).write_text(content)

    def loaded(text, changes=()):
        file = tmp_path / "s.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Scenario.load(file, changes)

    return loaded


@pytest.fixture
def complaints(load, tmp_path):
    """The messages about a scenario, without the folder's name."""

    def told(text, changes=()):
        with pytest.raises(ScenarioError) as caught:
            load(text, changes)
        return [message.replace(f"{tmp_path}/", "") for message in caught.value.messages]

    return told


def changed(*pairs):
    """The good scenario with some lines replaced."""
    text = GOOD
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def below(line, *more):
    """The good scenario with more lines below one of it."""
    return changed((line, "\n".join([line, *more])))


def churn(*lines):
    return GOOD + "\n".join(["[churn]", *lines, ""])


def test_a_good_scenario_is_read(load):
    scenario = load(GOOD)
    assert (scenario.name, scenario.cycles, scenario.runs, scenario.data.set) == ("a test", 5, 1, "random")
    assert list(scenario.stack(1, RawRecords.stand_in())) == ["peers", "learning"]


ONE_MISTAKE = {
    "an unknown top-level key": (
        changed(("seed = 1", "seed = 1\nordr = 3")),
        "s.toml:3: ordr: unknown key\n    did you mean “order”?",
    ),
    "a misspelt key that is required": (
        changed(("cycles = 5", "cycle = 5")),
        "s.toml:3: cycle: unknown key\n    did you mean “cycles”?",
    ),
    "a key like no other": (
        below('set = "random"', "zzz = 1"),
        "s.toml:7: data.zzz: unknown key\n    valid: set, file, format, task, label, classes, categories, indices",
    ),
    "a misspelt key of a layer, on which another layer depends": (
        changed(("view = 20", "vieww = 20")),
        "s.toml:15: peers.vieww: unknown key\n    did you mean “view”?",
    ),
    "an unknown key in an inline table": (
        below("records = 1", 'split = { kind = "iid", x = 3 }'),
        "s.toml:11: nodes.split.x: unknown key",
    ),
    "a key that only Python uses": (
        below('learner = "pegasos"', "lam = 1.0"),
        "s.toml:23: learning.lam: unknown key\n    did you mean “lambda”?",
    ),
    "an unknown key with a dot and an umlaut": (
        below("seed = 1", '"ä.b" = 1'),
        's.toml:3: "ä.b": unknown key\n    valid: name, seed',
    ),
    "a missing key": (
        changed(("seed = 1\n", "")),
        "s.toml: seed: missing\n    seed of the first run",
    ),
    "a missing key of a layer": (
        changed(("view = 20\n", "")),
        "s.toml:12: peers.view: missing\n    the number of descriptors that a node keeps",
    ),
    "text for a number": (
        changed(("cycles = 5", 'cycles = "5"')),
        's.toml:3: cycles: expected an integer; got "5"\n    number of cycles per run',
    ),
    "a fraction for an integer": (
        changed(("cycles = 5", "cycles = 5.0")),
        "s.toml:3: cycles: expected an integer; got 5.0",
    ),
    "true for an integer": (
        changed(("cycles = 5", "cycles = true")),
        "s.toml:3: cycles: expected an integer; got true",
    ),
    "a date for an integer": (
        changed(("cycles = 5", "cycles = 1979-05-27")),
        "s.toml:3: cycles: expected an integer; got 1979-05-27",
    ),
    "a number for text": (changed(('name = "a test"', "name = 3")), "s.toml:1: name: expected text; got 3"),
    "no text": (changed(('name = "a test"', 'name = ""')), "s.toml:1: name: expected text of at least 1 character"),
    "a negative number": (changed(("cycles = 5", "cycles = -5")), "s.toml:3: cycles: expected at least 1; got -5"),
    "a number too large": (
        changed(("cycles = 5", "cycles = 3_000_000_000")),
        "s.toml:3: cycles: expected less than 2147483648",
    ),
    "too many runs": (below("seed = 1", "runs = 10_000_000"), "s.toml:3: runs: expected at most 1000000"),
    "more than 64 bits": (
        changed(("cycles = 5", f"cycles = {10**30}")),
        "s.toml:3: cycles: expected an integer of at most 64 bits",
    ),
    "many more bits": (
        changed(("cycles = 5", f"cycles = 0x{'f' * 5000}")),
        "s.toml:3: cycles: expected an integer of at most 64",
    ),
    "many more digits": (changed(("cycles = 5", f"cycles = {'9' * 5000}")), "s.toml: not TOML: Exceeds the limit"),
    "not a number": (
        GOOD + "[transport]\nloss = nan\n",
        "s.toml:28: transport.loss: expected a finite number; got nan",
    ),
    "infinity": (GOOD + "[transport]\nloss = inf\n", "s.toml:28: transport.loss: expected a finite number; got inf"),
    "a share above 1": (
        GOOD + "[transport]\nloss = 2\n",
        "s.toml:28: transport.loss: expected at most 1; got 2\n    the prob",
    ),
    "a number for a table": (
        changed(('[observe]\nevery = "log"\nnodes = 100\n', "")).replace("seed", "observe = 3\nseed"),
        "s.toml:2: observe: expected a table; got 3",
    ),
    "text for a list": (
        changed(('scale = ["minmax", "l1"]', 'scale = "l1"')),
        's.toml:7: data.scale: expected a list; got "l1"',
    ),
    "a bad element of a list": (
        changed(('"l1"]', '\n  "l7",\n]')),
        's.toml:8: data.scale.1: expected "minmax", "standard", "pool", "l1", "l2", "clip-l2" or "bias"; got "l7"',
    ),
    "a misspelt choice": (
        changed(('"pegasos"', '"Pegasus"')),
        "s.toml:22: learning.learner: there is no learner “Pegasus”\n    did you mean “pegasos”?",
    ),
    "neither of two types": (
        changed(("nodes = 100", 'nodes = "al"')),
        's.toml:26: observe.nodes: expected an integer, or "all"; got "al"\n    did you mean “all”?',
    ),
    "double brackets for single ones": (
        changed(("[data]", "[[data]]")),
        's.toml:5: data: expected a table; got [{ set = "random", scale = ["minmax", "l1"] }]\n'
        "    write [data] with single brackets",
    ),
    "single brackets for double ones": (
        GOOD.split("[[protocol]]")[0] + '[protocol]\nname = "peers"\nuse = "uniform"\n',
        's.toml:12: protocol: expected a list; got { name = "peers", use = "uniform" }\n'
        "    write [[protocol]] with double brackets",
    ),
    "a layer that is no table": (
        "protocol = [3]\n" + GOOD.split("[[protocol]]")[0],
        "s.toml:1: protocol.0: expected a table; got 3",
    ),
    "an empty layer": (GOOD + "[[protocol]]\n", "s.toml:27: protocol.2.use: missing\n    the protocol to run"),
    "a layer without a name": (changed(('name = "learning"\n', "")), "s.toml:17: protocol.1.name: missing"),
    "a layer with a number for a name": (
        changed(('"learning"', "5")),
        "s.toml:18: protocol.1.name: expected text; got 5",
    ),
    "a layer with a dot in its name": (
        changed(('"learning"', '"a.b"')),
        "s.toml:18: protocol.1.name: expected a name of letters, digits, “_” and “-” that begins with a letter",
    ),
    "two layers of one name": (
        changed(('name = "learning"', 'name = "peers"')),
        "s.toml:18: peers.name: “peers” is the name of an earlier layer",
    ),
    "a layer named like a top-level key": (
        changed(('name = "learning"', 'name = "churn"')),
        "s.toml:18: churn.name: “churn” is reserved\n    a layer may not be called name, seed",
    ),
    "a layer named raw": (changed(('name = "learning"', 'name = "raw"')), "s.toml:18: raw.name: “raw” is reserved"),
    "a layer named like the log's rows about the network": (
        changed(('name = "learning"', 'name = "world"')),
        "s.toml:18: world.name: “world” is reserved",
    ),
    "a reference to a later layer": (
        changed(('peers = "peers"', 'peers = "later"')) + '[[protocol]]\nname = "later"\nuse = "uniform"\n',
        "s.toml:20: learning.peers: “later” is defined later in the file\n    a layer can only use",
    ),
    "a reference to itself": (
        changed(('peers = "peers"', 'peers = "learning"')),
        "s.toml:20: learning.peers: there is no layer “learning”\n    overlay layers before this one: peers",
    ),
    "a misspelt reference": (
        changed(('peers = "peers"', 'peers = "pers"')),
        "s.toml:20: learning.peers: there is no layer “pers”\n    did you mean “peers”?",
    ),
    "a reference to a layer of another kind": (
        changed(('records = "raw"', 'records = "peers"')),
        "s.toml:21: learning.records: “peers” is a layer of the wrong kind: expected records\n"
        "    records layers before this one: raw",
    ),
    "a number for a reference": (
        changed(('peers = "peers"', "peers = 3")),
        "s.toml:20: learning.peers: expected the name of an earlier layer; got 3",
    ),
    "raw records without data": (
        changed(('[data]\nset = "random"\nscale = ["minmax", "l1"]\n', ""), ("records = 1", "number = 9")),
        "s.toml:18: learning.records: there are no raw records without [data]",
    ),
    "a misspelt protocol": (
        changed(('"golf"', '"glof"')),
        "s.toml:19: learning.use: there is no protocol “glof”\n    did you mean “golf”?",
    ),
    "a protocol like no other": (
        changed(('"golf"', '""')),
        "s.toml:19: learning.use: there is no protocol “”\n    golfsim list protocols",
    ),
    "a number for a protocol": (
        changed(('"golf"', "3")),
        "s.toml:19: learning.use: expected text; got 3\n    the protocol to run",
    ),
    "no protocol, on which another layer depends": (
        changed(('use = "newscast"\n', "")),
        "s.toml:12: peers.use: missing",
    ),
    "a protocol file that is not there": (
        changed(('"golf"', '"no.py:X"')),
        "s.toml:19: learning.use: there is no file no.py",
    ),
    "a protocol file that is a folder": (changed(('"golf"', '".:X"')), "s.toml:19: learning.use: there is no file"),
    "a protocol file with a null byte": (
        changed(('"golf"', r'"\u0000:X"')),
        "s.toml:19: learning.use: “\0:X” cannot be loaded",
    ),
    "a protocol file with a slip": (
        changed(('"golf"', '"syntax.py:X"')),
        "s.toml:19: learning.use: syntax.py, line 1 fails when loaded: SyntaxError: invalid syntax",
    ),
    "a protocol file that fails": (
        changed(('"golf"', '"raises.py:X"')),
        "s.toml:19: learning.use: raises.py, line 3 fails when loaded: ZeroDivisionError: division by zero",
    ),
    "a protocol file that ends the program": (changed(('"golf"', '"exits.py:X"')), "s.toml:19: learning.use: "),
    "a protocol file without the class": (
        changed(('"golf"', '"mine.py:Mien"')),
        "s.toml:19: learning.use: mine.py has no protocol class “Mien”\n    did you mean “Mine”?",
    ),
    "a class that is no protocol": (
        changed(('"golf"', '"mine.py:Other"')),
        "s.toml:19: learning.use: mine.py has no protocol class “Other”",
    ),
    "a layer that ends before it begins": (
        below("view = 20", "first = 5", "until = 3"),
        "s.toml:17: peers.until: expected at least 5, the value of “first”; got 3",
    ),
    "no kind of churn": (
        churn("online = 0.9"),
        "s.toml:27: churn.kind: missing\n    valid: crash, rate, oscillating, diurnal, replacement, lognormal",
    ),
    "an unknown kind of churn": (
        churn('kind = "lognormall"'),
        "s.toml:28: churn.kind: there is no kind “lognormall”\n    did you mean “lognormal”?",
    ),
    "a number for a kind of churn": (
        churn("kind = 3"),
        "s.toml:28: churn.kind: there is no kind “3”\n    valid: crash, rate",
    ),
    "a misspelt key of churn": (
        churn('kind = "lognormal"', "online = 0.9", "mu = 1", "sigmaa = 1"),
        "s.toml:31: churn.sigmaa: unknown key\n    did you mean “sigma”?",
    ),
    "churn that is no table": ('churn = "crash"\n' + GOOD, 's.toml:1: churn: expected a list; got "crash"'),
    "a bad table of churn among several": (
        GOOD + '[[churn]]\nkind = "crash"\nat = 3\nshare = 0.5\n[[churn]]\nkind = "crash"\nat = 0\nnumber = 3\n',
        "s.toml:33: churn.1.at: expected at least 1; got 0\n    the cycle in which the nodes fail",
    ),
    "a crash of a share and a number": (
        churn('kind = "crash"', "at = 3", "share = 0.5", "number = 3"),
        "s.toml:27: churn: expected either “share” or “number”",
    ),
    "a crash of nobody": (churn('kind = "crash"', "at = 3"), "s.toml:27: churn: expected either “share” or “number”"),
    "a delay from 0": (
        GOOD + "[transport]\ndelay = [0, 3]\n",
        "s.toml:28: transport.delay.0: expected at least 1; got 0",
    ),
    "a delay backwards": (
        GOOD + "[transport]\ndelay = [5, 3]\n",
        "s.toml:28: transport.delay: expected [from, to] with from ≤ to; got [5, 3]",
    ),
    "a delay of three numbers": (
        GOOD + "[transport]\ndelay = [1, 2, 3]\n",
        "s.toml:28: transport.delay: expected an integer, or at most 2 value(s), or a table; "
        "got [1, 2, 3]\n    the number of cycles",
    ),
    "a delay of one number": (
        GOOD + "[transport]\ndelay = [1]\n",
        "s.toml:28: transport.delay.1: missing\n    the number of cycles",
    ),
    "a delay of text": (
        GOOD + '[transport]\ndelay = [1, "a"]\n',
        's.toml:28: transport.delay.1: expected an integer; got "a"',
    ),
    "a condition that cannot be read": (
        GOOD + '[stop]\nwhen = "learning.error < "\n',
        "s.toml:28: stop.when: cannot read the condition “learning.error < ”\n    expected: layer.metric < number",
    ),
    "a condition on a layer that is not there": (
        GOOD + '[stop]\nwhen = "lerning.error.mean < 0.1"\n',
        "s.toml:28: stop.when: there is no layer “lerning”\n    did you mean “learning”?",
    ),
    "a misspelt data set": (
        changed(('set = "random"', 'set = "Spambse"')),
        "s.toml:6: data.set: there is no data set “Spambse”\n    did you mean “spambase”?",
    ),
    "a data set and a file": (
        below('set = "random"', 'file = "mine.py"'),
        "s.toml:5: data: expected either “set” or “file”",
    ),
    "neither a data set nor a file": (
        changed(('set = "random"\n', "")),
        "s.toml:5: data: expected either “set” or “file”",
    ),
    "a data file that is not there": (
        changed(('set = "random"', 'file = "no.csv"')),
        's.toml:6: data.file: there is no file "no.csv"\n    the path is relative to the scenario file',
    ),
    "nothing that gives the number of nodes": (
        GOOD.split("[data]")[0],
        "s.toml: nodes.number: missing: a scenario without [data] must state the number of nodes",
    ),
    "a key without a value": (GOOD + "x = \n", "s.toml:27: not TOML: Invalid value (column 5)"),
    "a key twice": (below("seed = 1", "seed = 2"), "s.toml:3: not TOML: this key occurs twice in its table (column 9)"),
    "an open string": ('name = "t\n', "s.toml:1: not TOML: Illegal character"),
    "Latin-1": (changed(("a test", "é")).encode("latin-1"), "s.toml:1: not UTF-8 text: invalid continuation byte"),
    "UTF-16": (GOOD.encode("utf-16"), "s.toml:1: not UTF-8 text: invalid start byte"),
    "deep lists": ("x = " + "[" * 3000 + "]" * 3000, "s.toml: lists or tables are nested too deeply"),
    "a deep key": (".".join("a" * 3000) + " = 1", "s.toml: lists or tables are nested too deeply"),
    "Windows line ends": (
        changed(("cycles = 5", 'cycles = "5"')).replace("\n", "\r\n"),
        "s.toml:3: cycles: expected an integer",
    ),
}


@pytest.mark.parametrize(("text", "message"), ONE_MISTAKE.values(), ids=ONE_MISTAKE)
def test_one_mistake_gives_one_message_with_its_place(complaints, text, message):
    (told,) = complaints(text)
    assert told.startswith(message)


def test_several_errors_are_reported_together_in_the_order_of_the_file(complaints):
    text = changed(
        ("cycles = 5", 'cycles = "5"'), ('set = "random"', 'set = "rndom"'), ('"l1"]', '"l7"]'),
        ("view = 20", "vieww = 20"), ('"pegasos"', '"pegasus"'), ('every = "log"', "every = 0"),
    )  # fmt: skip
    text += '[transport]\nloss = 7\n[stop]\nwhen = "?"\n'
    places = [message.split(": ")[:2] for message in complaints(text)]
    assert places == [
        ["s.toml:3", "cycles"], ["s.toml:6", "data.set"], ["s.toml:7", "data.scale.1"], ["s.toml:15", "peers.vieww"],
        ["s.toml:22", "learning.learner"], ["s.toml:25", "observe.every"], ["s.toml:28", "transport.loss"],
        ["s.toml:30", "stop.when"],
    ]  # fmt: skip


def test_an_empty_file_is_reported_all_it_lacks(complaints):
    keys = [message.split(": ")[1] for message in complaints("# nothing")]
    assert keys == ["name", "seed", "cycles", "nodes.number"]


def test_no_message_speaks_pydantic(complaints):
    words = ("Input", "valid string", "Tuple", "dictionary", "instance", "validat", "Config", "pydantic", "NoneType")
    for text, _ in ONE_MISTAKE.values():
        told = "\n".join(complaints(text))
        assert not [word for word in words if word in told], told


def test_a_mark_of_the_byte_order_is_not_in_the_way(load):
    assert load("\ufeff" + GOOD).cycles == 5


@pytest.mark.parametrize("name", ["missing.toml", ".", "a\0b"])
def test_what_is_no_file_is_refused(tmp_path, name):
    with pytest.raises(UserError, match=r"No such file|this is a folder|null"):
        Scenario.load(tmp_path / name)


def test_changes_are_taken_as_on_the_command_line(load):
    changes = ["cycles=50", "learning.learner=logistic", "data.scale=['l2']", "observe = {every = 3}", "name=two words"]
    scenario = load(GOOD, changes)
    assert (scenario.cycles, scenario.data.scale, scenario.name) == (50, ("l2",), "two words")
    assert scenario.observe.every == 3
    assert scenario.stack(1, RawRecords.stand_in())["learning"].config.learner.config.use == "logistic"


def test_changes_may_be_given_as_values(load):
    scenario = load(GOOD, {"cycles": 50, "peers.view": 7})
    assert scenario.cycles == 50
    assert scenario.stack(1, RawRecords.stand_in())["peers"].config.view == 7


def test_a_change_reaches_into_lists(load):
    text = GOOD + '[[churn]]\nkind = "crash"\nat = 3\nshare = 0.5\n[[churn]]\nkind = "crash"\nat = 4\nnumber = 3\n'
    assert [model.at for model in load(text, ["churn.1.at=9"]).churn] == [3, 9]


@pytest.mark.parametrize("key", ["churn.at", "churn.0.at"])
def test_a_single_table_of_churn_is_also_the_first_of_a_list(load, key):
    text = churn('kind = "crash"', "at = 3", "share = 0.5")
    assert [model.at for model in load(text, [f"{key}=9"]).churn] == [9]


def test_a_change_makes_the_table_it_needs(load):
    assert load(GOOD, ["transport.loss=0.25"]).transport.loss == 0.25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("cycles", "--set cycles: expected path=value, e.g. --set cycles=50"),
        ("=5", "--set =5: expected path=value"),
        ("cycels=5", "--set cycels=5: there is no layer and no top-level key “cycels”\n    did you mean “cycles”?"),
        ("lerning.learner=mean", "--set lerning.learner=mean: there is no layer and no top-level key “lerning”"),
        ("learning.lerner=mean", "--set learning.lerner=mean: learning.lerner: unknown key\n    did you mean"),
        ("cycles=many", '--set cycles=many: cycles: expected an integer; got "many"'),
        ("cycles=", '--set cycles=: cycles: expected an integer; got ""'),
        ("cycles.x=1", "--set cycles.x=1: “cycles” is not a table and has no key “x”"),
        ("data.scale.7=l2", "--set data.scale.7=l2: “data.scale” has 2 elements, numbered from 0: there is no “7”"),
        ("data.scale.x=l2", "--set data.scale.x=l2: “data.scale” has 2 elements, numbered from 0: there is no “x”"),
        ("data..set=1", '--set data..set=1: data."": unknown key'),
        ("transport.loss=7", "--set transport.loss=7: transport.loss: expected at most 1; got 7"),
        (f"seed={10**30}", f"--set seed={10**30}: seed: expected an integer of at most 64 bits"),
    ],
)
def test_a_bad_change_is_reported_as_it_was_written(complaints, change, message):
    (told,) = complaints(GOOD, [change])
    assert told.startswith(message)


def test_several_invalid_changes_are_reported_together(complaints):
    assert len(complaints(GOOD, ["a=1", "b=2", "cycles.x=3"])) == 3


def test_a_changed_copy_leaves_the_first_alone(load):
    first = load(GOOD)
    second = first.change({"peers.view": 3, "cycles": 9})
    for scenario, cycles, view in ((first, 5, 20), (second, 9, 3)):
        assert scenario.cycles == cycles
        assert scenario.stack(1, RawRecords.stand_in())["peers"].config.view == view


def test_a_dictionary_is_checked_like_a_file_and_left_alone():
    tree = tomllib.loads(GOOD)
    scenario = Scenario.of(tree)
    scenario.change({"peers.view": 3})
    assert tree == tomllib.loads(GOOD)
    with pytest.raises(ScenarioError, match=r"^scenario: cycles: expected an integer"):
        Scenario.of(tree | {"cycles": "x"})


def test_a_mistake_found_while_running_gets_its_line(load, tmp_path):
    scenario = load(GOOD)
    error = scenario.located(UserError("too small", key="peers.view", hint="take more"))
    assert str(error) == f"{tmp_path}/s.toml:15: peers.view: too small\n    take more"
    placeless = UserError("no key")
    assert scenario.located(placeless) is placeless


def test_a_scenario_as_run_spells_out_every_default_and_is_the_same_scenario(load):
    text = GOOD + '[[churn]]\nkind = "rate"\nleave = 0.1\nrejoin = 0.2\n[transport]\nloss = 0.5\n'
    text += '[stop]\nwhen = "learning.error.mean < 0.1"\n'
    scenario = load(text)
    tree = tomllib.loads(scenario.dump())
    assert tree["protocol"][1]["lambda"] == 1e-4
    assert tree["churn"][0]["rejoin"] == 0.2
    again = load(scenario.dump())
    assert again.dump() == scenario.dump()
    assert again.model_dump(exclude={"protocol"}) == scenario.model_dump(exclude={"protocol"})


def test_one_run_builds_the_stack_to_check_it_to_foresee_its_memory_and_to_run_it(tmp_path, monkeypatch):
    from golfsim.runs.single import run
    from golfsim.scenario import model

    built, build = [], model._build
    monkeypatch.setattr(model, "_build", lambda *what: built.append(what[1]) or build(*what))
    (tmp_path / "s.toml").write_text(GOOD)
    run(Scenario.load(tmp_path / "s.toml", {"cycles": 2}), tmp_path / "results")
    assert len(built) == 3
