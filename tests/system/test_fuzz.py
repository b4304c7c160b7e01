"""Tens of thousands of broken files, each of which must end in a message.

GOLFSIM_FUZZ=2000 pytest tests/system/test_fuzz.py tries 2000 per test.

Without that variable each test tries a few dozens, always the same.
"""

import hashlib
import io
import shutil

import numpy as np
import pandas as pd
import pytest
from entries import ENTRIES, FAULTS
from entries import scenario as contract_tree
from fuzzing import broken_trees, built, damaged, outcome_of, thorough, tried
from helpers import HERE, command
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.data import files
from golfsim.network import traces
from golfsim.runs import batch
from golfsim.scenario.catalogue import schema
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint
from golfsim.testing import CHURN

PIECES = {
    "churn": [
        CHURN,
        {"kind": "lognormal", "mu": 1.0, "sigma": 1.0, "online": 0.5},
        {"kind": "weibull", "shape": 0.6, "scale": 5.0, "online": 0.5},
        {"kind": "oscillating", "low": 0.2, "period": 5},
        {"kind": "crash", "at": 2, "share": 0.5},
        {"kind": "join", "number": 5, "until": 3},
        {"kind": "trace", "file": "../scenarios/studies/churn_trace.csv", "assign": "repeat"},
    ],
    "adversary": [[{"kind": "noise", "share": 0.2}, {"kind": "old", "number": 3}]],
    "sweep": [{"seed": [1, 2]}, {"zip": [{"seed": [1, 2], "cycles": [1, 2]}]}],
    "case": [[{"label": "one", "seed": 5}]],
    "stop": [{"when": "world.online > 5"}],
    "plot": [{"kind": "none"}],
    "transport": [FAULTS["loss"], {"partition": [{"share": 0.3, "from": 1, "until": 2}]}],
    "observe": [{"every": 1, "nodes": 5, "metrics": ["auc", "f1", "confusion", "roc"], "overlay": 1, "follow": 3}],
}
SPLITS = [
    {"records": 2, "split": {"kind": "iid"}},
    {"records": 2, "split": {"kind": "label-skew", "alpha": 0.5}},
    {"number": 61, "records": {"kind": "lognormal", "sigma": 1.0}},
    {"number": 61, "records": {"kind": "zipf", "exponent": 1.0}},
    {"records": 2, "split": {"kind": "feature-skew", "groups": 3, "shift": 0.5}},
    {"records": 2, "arrival": {"start": 0.5, "rate": 0.5}},
]


def trees():
    """Valid scenarios: every protocol, and every table with it in turn."""
    found = [contract_tree(entry, cycles=2) for entry in ENTRIES.values()]
    golf = ENTRIES["golf over newscast"]
    found += [contract_tree(golf, cycles=2, **{key: value}) for key, values in PIECES.items() for value in values]
    return found + [contract_tree(golf, cycles=2, nodes=nodes) for nodes in SPLITS]


def known_keys(tree):
    """Every key that a schema knows."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "properties":
                yield from value
            yield from known_keys(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from known_keys(value)


@pytest.mark.parametrize("tree", trees(), ids=str)
def test_what_is_broken_here_is_whole_before(tree):
    assert tried(Scenario.of(tree, HERE)) > 0


@thorough(250)
@given(broken_trees(trees(), sorted(set(known_keys(schema())))))
def test_a_broken_scenario_is_run_or_refused_with_the_key(tree):
    error = outcome_of(lambda: tried(Scenario.of(tree, HERE)))
    if error is not None:
        assert isinstance(error, ScenarioError), repr(error)


TEXT = (HERE.parent / "scenarios/quickstart.toml").read_bytes()


@thorough(150)
@given(content=damaged(TEXT))
def test_a_damaged_scenario_file_is_read_or_refused_with_its_line(content, tmp_path_factory):
    file = tmp_path_factory.mktemp("fuzz", numbered=True) / "s.toml"
    file.write_bytes(content)
    error = outcome_of(lambda: Scenario.load(file))
    assert error is None or all(message.startswith(str(file)) for message in error.messages)
    shutil.rmtree(file.parent)


TRACE = b"node,from,until\n" + b"".join(b"%d,%d,%d.5\n" % (n % 9, n, n + 3) for n in range(30))


@thorough(150)
@given(content=damaged(TRACE), seconds=st.sampled_from([None, 1e-300, 0.5, 1e300]))
def test_a_damaged_trace_is_used_or_refused_with_its_name(content, seconds, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz", numbered=True)
    (folder / "t.csv").write_bytes(content)
    table = {"kind": "trace", "file": "t.csv", "assign": "sample"}
    tree = contract_tree(
        ENTRIES["newscast"], churn=table | ({"cycle_seconds": seconds} if seconds else {}), probed=False
    )
    error = outcome_of(lambda: tried(Scenario.of(tree, folder)))
    assert error is None or "churn" in str(error), error
    shutil.rmtree(folder)


def data_files():
    """A small file of each format that can be read: [(name, content)]."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    table = pd.DataFrame(x, columns=["a", "b", "ü"]).assign(colour=np.where(y, "red", "blue"), label=y)
    csv, parquet, npz = (io.BytesIO() for _ in range(3))
    table.to_csv(csv, index=False)
    table.to_parquet(parquet)
    np.savez_compressed(npz, x=x, y=y)
    lines = [
        f"{label} " + " ".join(f"{i + 1}:{v:.3f}" for i, v in enumerate(row)) for row, label in zip(x, y, strict=True)
    ]
    return [
        ("d.csv", csv.getvalue()), ("d.parquet", parquet.getvalue()), ("d.npz", npz.getvalue()),
        ("d.svm", "\n".join(lines).encode()),
    ]  # fmt: skip


def learning_from(name, **data):
    """A scenario that learns from a file of one's own."""
    table = {"file": name, "test": 5, "scale": ["l2"]} | data
    return contract_tree(ENTRIES["golf"], cycles=2) | {"data": table, "nodes": {"records": 1}}


@pytest.mark.parametrize(("name", "content"), data_files(), ids=[name for name, _ in data_files()])
def test_a_damaged_data_file_is_read_or_refused_with_its_name(name, content, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / name).write_bytes(content)
    assert outcome_of(lambda: tried(Scenario.of(learning_from(name), folder))) is None

    @thorough(60)
    @given(damaged(content))
    def check(broken):
        (folder / name).write_bytes(broken)
        error = outcome_of(lambda: tried(Scenario.of(learning_from(name), folder)))
        assert error is None or "data." in str(error) or "nodes" in str(error), error

    check()


VALUES = st.sampled_from(
    [0, 1, -1, 0.5, 1e30, -1e38, 1e39, 1e308, 5e-324, float("nan"), float("inf"), None, "", "a", "0"]
)


@thorough(120)
@given(
    rows=st.lists(st.lists(VALUES, min_size=3, max_size=3), max_size=12),
    names=st.lists(st.text(max_size=5) | st.just("x" * 3000), min_size=3, max_size=3),
    scale=st.sampled_from([[], ["l1"], ["l2"], ["clip-l2"], ["minmax"], ["minmax", "l1", "bias"]]),
    suffix=st.sampled_from(["csv", "parquet", "npz"]),
    stated=st.sampled_from([0, 1, 2]),
)
def test_a_table_of_strange_values_is_learned_from_or_refused(rows, names, scale, suffix, stated, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz", numbered=True)
    file = folder / f"d.{suffix}"
    if suffix == "npz":
        numbers = [[float(v) if isinstance(v, int | float) else 0.0 for v in row] for row in rows]
        values = np.array(numbers).reshape(-1, 3)
        np.savez(file, x=values[:, :2], y=values[:, 2])
    else:
        table = pd.DataFrame(rows, columns=names, dtype=object)
        try:
            table.to_csv(file, index=False) if suffix == "csv" else table.to_parquet(file)
        except Exception:  # what pandas cannot write nobody can give us
            shutil.rmtree(folder)
            return
    values = ["0", "1", "-1", "0.5", "a", "", "nan", "None"]
    public = {"classes": values, "categories": dict.fromkeys(names[:stated], values)} if stated else {}
    tree = learning_from(file.name, scale=scale, bounds="train", test=1, **public)
    error = outcome_of(lambda: tried(Scenario.of(tree, folder)))
    assert error is None or "data" in str(error) or "nodes" in str(error) or "subject" in str(error), error
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def half_way(tmp_path_factory):
    """A scenario and a checkpoint of it."""
    tree = contract_tree(ENTRIES["golf over newscast"], churn=CHURN, transport={"delay": [1, 4]})
    scenario = Scenario.of(tree, HERE)
    run = built(scenario)
    run.step()
    path = tmp_path_factory.mktemp("half way") / "checkpoint-000000000001"
    checkpoint.save(run, path)
    return scenario, path.read_bytes()


@pytest.mark.parametrize("mended", [False, True], ids=["as it is", "with a right checksum"])
def test_a_damaged_checkpoint_is_refused_with_its_name(half_way, mended, tmp_path):
    scenario, content = half_way
    path, head = tmp_path / "checkpoint", len(checkpoint.MAGIC)
    body = content[head + checkpoint.DIGEST :]

    @thorough(60)
    @given(damaged(body if mended else content))
    def check(broken):
        if mended:
            broken = checkpoint.MAGIC + hashlib.sha256(broken).hexdigest().encode() + broken
        path.write_bytes(broken)
        error = outcome_of(lambda: checkpoint.load(built(scenario), path))
        assert error is not None or mended or broken == content
        assert error is None or str(path) in str(error)

    check()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with two whole runs of a small sweep."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    tree = contract_tree(ENTRIES["golf"], cycles=2, sweep={"subject.lambda": [0.1, 0.01]}, runs=1)
    batch.run(Scenario.of(tree, HERE), folder, batch.Execution())
    return folder


@pytest.mark.parametrize(
    "words", [("compare",), ("status",), ("report", "--out", "page.html")], ids=lambda words: words[0]
)
def test_damaged_results_are_told_or_left_out(results, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = ("log.parquet", "run.json", "scenario.toml", "index.sqlite")
    files = {name: next(results.rglob(name)).relative_to(results) for name in kinds}

    @thorough(4 if words[0] == "report" else 12)
    @given(st.data())
    def check(data):
        folder = tmp_path / "r"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(results, folder)
        name = data.draw(st.sampled_from(kinds))
        file = folder / files[name]
        file.write_bytes(data.draw(damaged(file.read_bytes())))
        code, out, err = command(capsys, monkeypatch, words[0], folder, *words[1:])
        assert "Traceback" not in out + err
        assert code == 0 or err.strip()

    check()


# One by one


def refused(action, *words):
    error = outcome_of(action)
    assert error is not None
    for word in words:
        assert word in str(error), error


CSV = "a,b,label\n" + "".join(f"{i % 5},{i},{i % 2}\n" for i in range(20))


def assert_data_refused(tmp_path, text, *words, **data):
    (tmp_path / "d.csv").write_text(text, encoding="utf-8")
    refused(lambda: tried(Scenario.of(learning_from("d.csv", **data), tmp_path)), *words)


@pytest.mark.parametrize("value", ["nan", "", "inf", "-inf", "1e39"])
def test_a_value_that_is_no_finite_number_is_named_with_column_and_record(tmp_path, value):
    assert_data_refused(tmp_path, CSV.replace("\n3,3,1\n", f"\n{value},3,1\n"), "data.file", "“a”", "record 4")


def test_text_among_numbers_is_named_with_its_column(tmp_path):
    text = "a,b,label\n" + "".join(f"{i}x,{i},{i % 2}\n" for i in range(1500))
    assert_data_refused(tmp_path, text, "data.file", "column “a” is text with 1500 different values")


def test_one_class_only_is_named(tmp_path):
    assert_data_refused(tmp_path, CSV.replace(",1\n", ",0\n"), "data.file", "all records belong to one class (0)")


@pytest.mark.parametrize("text", ["", "\n", "a,b,label\n", "a\n"])
def test_an_empty_file_is_named(tmp_path, text):
    assert_data_refused(tmp_path, text, "data.file")


def test_no_test_records_are_named(tmp_path):
    assert_data_refused(tmp_path, CSV, "data.test", "no records are left for testing", test=1e-300)


@pytest.mark.parametrize("key", ["train", "test"])
def test_more_generated_records_than_memory_holds_are_named(key):
    tree = contract_tree(ENTRIES["golf"])
    tree["data"][key] = 10**15
    words = {"train": "nodes: needs about", "test": "data.test: 1000000000000122 generated records need"}
    refused(lambda: tried(Scenario.of(tree, HERE)), words[key])


def test_constant_features_and_repeated_rows_are_no_mistake(tmp_path):
    text = "a,b,label\n" + "1,5,0\n1,7,1\n" * 20
    (tmp_path / "d.csv").write_text(text)
    for scale in (["minmax"], ["l1"], ["minmax", "l2"]):
        tree = learning_from("d.csv", scale=scale, bounds="train")
        assert outcome_of(lambda tree=tree: tried(Scenario.of(tree, tmp_path))) is None


@pytest.mark.parametrize("rows", [1, 0])
def test_a_million_columns_are_refused_at_once(tmp_path, rows):
    header = ",".join(f"c{i}" for i in range(1_000_000))
    assert_data_refused(
        tmp_path, header + "\n" + ("0," * 999_999 + "1\n") * rows, "data.file", "more than 100000 columns"
    )


def test_a_file_that_unfolds_to_more_than_there_is_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((5000, 3)), y=np.zeros(5000))
    pd.DataFrame(np.zeros((5000, 3)), columns=list("abc")).to_parquet(tmp_path / "d.parquet")
    monkeypatch.setattr(files, "available", lambda: 20_000)  # more than the files have, less than what is in them
    for name in ("d.npz", "d.parquet"):
        assert (tmp_path / name).stat().st_size < 20_000
        tree = learning_from(name)
        refused(lambda tree=tree: tried(Scenario.of(tree, tmp_path)), "data.file", "of memory are available")


@pytest.mark.parametrize("epsilon", [0, 0.0, -1.0, float("nan"), "five", True, 1e-300])
@pytest.mark.parametrize("use", ["data_perturbation", "gradient_perturbation", "golf with noisy gradients", "anonml"])
def test_an_epsilon_that_cannot_be_is_named(use, epsilon):
    tree = contract_tree(ENTRIES[use], probed=False)
    tree["protocol"][-1]["epsilon"] = epsilon
    refused(lambda: Scenario.of(tree, HERE), "subject.epsilon")


NAMES = {
    "a" + "ü" * 50: True,
    "x" * 5_000: True,
    "名前": False,
    "a b": False,
    "../x": False,
    "": False,
    "a\u0000": False,
}


@pytest.mark.parametrize(("name", "fine"), NAMES.items(), ids=range(len(NAMES)))
def test_strange_names_of_layers_are_used_or_named(name, fine, tmp_path):
    tree = contract_tree(ENTRIES["newscast"], probed=False)
    tree["protocol"][0]["name"] = name
    error = outcome_of(lambda: batch.run(Scenario.of(tree, tmp_path), tmp_path / "r", batch.Execution()))
    assert (error is None) == fine, error
    assert {path.name for path in tmp_path.iterdir()} <= {"r"}


@pytest.mark.parametrize("label", ["../../out", "/tmp/out", "ü" * 5000, "a\nb", ".", "..", "con: *?", "\u202e"])
def test_no_label_leads_out_of_the_folder_of_results(label, tmp_path):
    tree = contract_tree(ENTRIES["newscast"], probed=False, case=[{"label": label, "cycles": 1}])
    batch.run(Scenario.of(tree, tmp_path), tmp_path / "in" / "r", batch.Execution())
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["r"]


NOWHERE = ["../none.csv", "/", ".", "x" * 5000, "a\u0000b", "~nobody/x.csv", "d.csv/x"]


@pytest.mark.parametrize("name", NOWHERE, ids=range(len(NOWHERE)))
def test_a_path_that_leads_nowhere_is_named(name, tmp_path):
    (tmp_path / "d.csv").write_text(CSV)
    refused(lambda: tried(Scenario.of(learning_from(name), tmp_path)), "data.file")
    churned = contract_tree(ENTRIES["newscast"], probed=False, churn={"kind": "trace", "file": name})
    refused(lambda: tried(Scenario.of(churned, tmp_path)), "churn")
    layer = {"name": "peers", "use": "static_overlay", "file": name}
    refused(lambda: tried(Scenario.of(churned | {"protocol": [layer], "churn": []}, tmp_path)), "peers.file")
    layer = {"name": "peers", "use": f"{name}:Class"}
    refused(lambda: Scenario.of(churned | {"protocol": [layer]}, tmp_path), "peers.use")


def test_more_points_than_anybody_can_run_are_refused_at_once():
    sweep = {f"subject.{key}": list(range(1, 101)) for key in ("view", "first", "every", "until")}
    refused(
        lambda: tried(Scenario.of(contract_tree(ENTRIES["newscast"], sweep=sweep, probed=False), HERE)), "100000000"
    )


def test_a_thousand_million_cycles_need_no_list_of_them():
    tree = contract_tree(ENTRIES["newscast"], cycles=2**31 - 1, probed=False)
    run = built(Scenario.of(tree, HERE))
    run.step()
    assert run.log.cycles


def test_a_trace_of_very_many_or_very_long_names_is_read_or_refused_soon(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("node,from,until\n" + "".join(f"n{i},1,2\n" for i in range(200_000)))
    node = traces.read_sessions(file).node
    assert len(node) == 200_000
    file.write_text("node,from,until\n" + '"' + "x" * 200_000)
    with pytest.raises(UserError, match=r"t\.csv: not a CSV file"):
        traces.read_sessions(file)
