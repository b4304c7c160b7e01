"""What a user's own file leaves open is stated in `[data]`, or is a caveat of every guarantee."""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from entries import ENTRIES
from entries import scenario as contract_tree
from fuzzing import thorough
from helpers import needs_jit
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from golfsim.audit.neighbours import constructed
from golfsim.audit.network import Network
from golfsim.cli import export
from golfsim.core.errors import UserError
from golfsim.data import files, loading, public
from golfsim.data.cards import cards
from golfsim.data.config import DataConfig
from golfsim.data.known_sets import read_card
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

JOBS = ("nurse", "clerk", "astronaut")
STATED = {"classes": ["no", "yes"], "categories": {"job": list(JOBS)}}
PROVEN = "ε = 1 per record, proven"
CAVEAT = (
    "not private: ε = 1 per record except for {}, which were read from the private records and are not accounted for "
    "(if they are public, state {})"
)


def people(path: Path, first_job: str = "clerk") -> str:
    """Write the table of the issue, in which one cell can differ."""
    records = [(first_job, 0.5, "yes")] + [(JOBS[n % 2], n / 20, "yes" if n % 3 else "no") for n in range(1, 20)]
    written(path, ["job", "hours", "answer"], records)
    return path.name


def written(path: Path, header: list[str], records: list[tuple[Any, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *records])


def publishing(folder: Path, **data: Any) -> Simulation:
    """Return a run that publishes the records of a file with ε = 1."""
    tree = {
        "name": "own",
        "seed": 1,
        "cycles": 1,
        "data": {"test": 4, "test_seed": 3, "scale": ["minmax", "l1"], "bounds": [0, 1]} | data,
        "protocol": [{"name": "published", "use": "data_perturbation", "epsilon": 1.0}],
    }
    return Simulation(Scenario.of(tree, folder))


def exported(folder: Path, **data: Any) -> tuple[list[str], str]:
    """Return the columns of an export of published records, and its guarantee."""
    simulation = publishing(folder, **data)
    layer = export.prepare(simulation, None)
    next(iter(simulation))
    out = folder / "published.parquet"
    export.write(simulation, layer, simulation.features, out)
    schema = pq.read_schema(out)
    return schema.names, schema.metadata[b"golfsim.guarantee"].decode()


# The pair of files of the issue


@needs_jit
def test_one_cell_changes_the_columns_of_an_export_only_if_the_guarantee_has_a_caveat(tmp_path: Path) -> None:
    files = [people(tmp_path / f"{job}.csv", job) for job in ("clerk", "astronaut")]
    read = [exported(tmp_path, file=file) for file in files]
    caveat = CAVEAT.format("the classes and the categories of “job”", "data.classes and data.categories")
    assert [guarantee for _, guarantee in read] == [caveat, caveat]
    assert read[0][0] != read[1][0]
    stated = [exported(tmp_path, file=file, **STATED) for file in files]
    columns = ["node", "record", "problem", "job=nurse", "job=clerk", "job=astronaut", "hours"]
    assert stated == [(columns, PROVEN)] * 2


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=3) | st.sampled_from(
    ["NA", "None", "nan", "", "1", "01", "1.0", "True", "-", "a b"]
)


@st.composite
def neighbours(draw: Any) -> tuple[list[str], list[str], list[tuple[str, float, str]], list[tuple[str, float, str]]]:
    """Draw categories, classes, and two lists of records over them that differ in one record."""
    categories = draw(st.lists(WORDS, min_size=1, max_size=5, unique=True))
    classes = draw(st.lists(st.sampled_from(["no", "yes", "perhaps", "3", "x y"]), min_size=2, max_size=4, unique=True))
    record = st.tuples(st.sampled_from(categories), st.floats(0, 1, width=32), st.sampled_from(classes))
    records = draw(st.lists(record, min_size=1, max_size=8))
    place = draw(st.integers(0, len(records) - 1))
    other = [*records[:place], draw(record), *records[place + 1 :]]
    return categories, classes, records, other


@thorough(150)
@given(neighbours())
def test_of_stated_values_a_record_changes_only_its_own_row(
    tmp_path_factory: pytest.TempPathFactory, pair: Any
) -> None:
    categories, classes, *sides = pair
    folder = tmp_path_factory.mktemp("pair")
    config = DataConfig.model_validate(
        {"file": "d.csv", "test": 1, "classes": tuple(classes), "categories": {"job": tuple(categories)}}
    )
    found = []
    for records in sides:
        written(folder / "d.csv", ["job", "hours", "answer"], records)
        raw = files.read(config, folder)
        assert raw.classes == tuple(classes)
        assert raw.features == (*(f"job={name}" for name in categories), "hours")
        assert [classes[code] for code in raw.y] == [label for _, _, label in records]
        assert [categories[row.argmax()] for row in raw.x[:, :-1]] == [job for job, _, _ in records]
        assert raw.columns["job"].tolist() == [job for job, _, _ in records]
        found.append(raw)
    assert (found[0].x != found[1].x).any(axis=1).sum() <= 1
    assert public.caveat(config, found[0].columns) == ""


# The caveat


@needs_jit
@pytest.mark.parametrize(
    ("data", "what", "settings"),
    [
        ({"classes": ["no", "yes"]}, "the categories of “job”", "data.categories"),
        ({"categories": STATED["categories"]}, "the classes", "data.classes"),
        (STATED | {"bounds": "train"}, "the training set's min-max bounds", "data.bounds"),
        (
            {"bounds": "train"},
            "the training set's min-max bounds, the classes and the categories of “job”",
            "data.bounds, data.classes and data.categories",
        ),
    ],
)
def test_the_guarantee_names_what_was_read_from_the_records(
    tmp_path: Path, data: dict[str, Any], what: str, settings: str
) -> None:
    simulation = publishing(tmp_path, file=people(tmp_path / "a.csv"), **data)
    assert str(simulation.layer("published").guarantee()) == CAVEAT.format(what, settings)


@pytest.mark.parametrize(
    ("data", "columns", "text"),
    [
        ({"file": "a.npz"}, (), "the classes"),
        ({"file": "a.npz", "classes": (0, 1)}, (), ""),
        ({"file": "a.csv", "classes": (0, 1)}, (), ""),
        ({"file": "a.SVM"}, (), "the classes and the feature indices"),
        ({"file": "a.txt", "classes": (0, 1)}, (), "the feature indices"),
        ({"file": "a.libsvm", "classes": (0, 1), "indices": (1, 9)}, (), ""),
        ({"file": "a.csv", "classes": (0, 1)}, ("a", "b", "c"), "the categories of “a”, “b” and “c”"),
        ({"file": "a.csv", "classes": (0, 1), "bounds": "train"}, (), ""),
        (
            {"file": "a.csv", "classes": (0, 1)},
            map(str, range(11)),
            "the categories of “0”, “1”, “2”, “3”, “4”, “5”, “6”, “7”, “8”, “9” and …",
        ),
        ({"set": "adult", "scale": ("minmax",)}, ("workclass",), ""),
        ({"set": "adult", "scale": ("minmax",), "bounds": "train"}, (), "the training set's min-max bounds"),
    ],
)
def test_a_caveat_lists_what_is_not_stated(data: dict[str, Any], columns: Any, text: str) -> None:
    found = public.caveat(DataConfig.model_validate(data), columns)
    assert found.split(", which were read from the private records")[0] == text
    assert ("not accounted for" in found) == bool(text)


@needs_jit
@pytest.mark.parametrize("stated", [False, True])
def test_an_audit_states_the_same_caveat(tmp_path: Path, stated: bool) -> None:
    data = {"file": people(tmp_path / "a.csv")} | (STATED if stated else {})
    network = Network(publishing(tmp_path, **data).scenario)
    pair = constructed(network.size.features, network.size.norm)[0]
    guarantee = network.guarantees(pair)[0]["published"]
    assert str(guarantee).startswith(PROVEN if stated else "not private: ε = 1 per record except for the classes")


# Data sets with a card


@pytest.mark.parametrize("name", sorted(cards()))
def test_a_set_with_a_card_has_no_caveat(name: str) -> None:
    assert loading.caveat(DataConfig(set=name), Path()) == ""
    assert len(cards()[name].classes) >= 2 or cards()[name].task != "classification"


@pytest.mark.parametrize("name", sorted(name for name, card in cards().items() if card.kind != "fetched"))
def test_the_classes_of_a_set_are_those_of_its_card(name: str) -> None:
    data = loading.load(DataConfig(set=name, train=60), 1, Path())
    assert data.classes == cards()[name].classes
    assert len(data.features) == cards()[name].features


def test_the_categories_of_adult_are_those_of_its_card() -> None:
    card = cards()["adult"]
    categories, raw = card.details["categories"], read_card(card)
    numbers = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
    assert {name for name in raw.features if "=" not in name} == numbers
    expected = [f"{column}={value}" for column, values in categories.items() for value in values]
    assert sorted(name for name in raw.features if "=" in name) == sorted(expected)
    assert all(column in raw.columns for column in categories)


@pytest.mark.parametrize("key", ["classes", "categories", "indices"])
def test_only_an_own_file_has_values_to_state(key: str) -> None:
    value = {"classes": (0, 1), "categories": {"a": ("b",)}, "indices": (1, 2)}[key]
    with pytest.raises(UserError) as caught:
        loading.load(DataConfig.model_validate({"set": "random", key: value}), 1, Path())
    assert str(caught.value) == f"data.{key}: “{key}” is only for your own file, not for a set with a card"


# What the reader does with stated values


def read(folder: Path, **data: Any) -> loading.Unscaled:
    return files.read(DataConfig.model_validate({"test": 1} | data), folder)


def refused(folder: Path, **data: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, **data)
    return str(caught.value)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_categories_may_look_like_numbers(tmp_path: Path, suffix: str) -> None:
    table = pd.DataFrame({"zip": [10, 20, 10], "part": [1.0, 2.0, 1.0], "flag": [True, False, True], "y": [0, 1, 1]})
    table.to_csv(tmp_path / "d.csv", index=False)
    table.to_parquet(tmp_path / "d.parquet")
    parts = ("1", "2") if suffix == "parquet" else ("1.0", "2.0")
    stated = {"zip": ("20", "10", "30"), "part": parts, "flag": ("False", "True")}
    raw = read(tmp_path, file=f"d.{suffix}", classes=(1, 0), categories=stated)
    assert raw.x.tolist() == [[0, 1, 0, 1, 0, 0, 1], [1, 0, 0, 0, 1, 1, 0], [0, 1, 0, 1, 0, 0, 1]]
    assert (raw.classes, raw.y.tolist()) == (("1", "0"), [1, 0, 0])


@pytest.mark.parametrize("text", sorted(files.NO_VALUE))
def test_a_text_that_means_missing_is_a_category_only_if_it_is_stated(tmp_path: Path, text: str) -> None:
    written(tmp_path / "d.csv", ["a", "b", "n", "y"], [("u", "v", 1, 0), (text, "v", 2, 1)])
    raw = read(tmp_path, file="d.csv", categories={"a": ("u", text), "b": ("v",)})
    assert raw.x.tolist() == [[1, 0, 1, 1], [0, 1, 1, 2]]
    assert "column “a” has no value in record 2" in refused(tmp_path, file="d.csv")
    assert "record 2: column “a” is “" in refused(tmp_path, file="d.csv", categories={"a": ("u",), "b": ("v",)})
    assert "column “a” has no value in record 2" in refused(tmp_path, file="d.csv", categories={"b": ("v",)})


def test_the_columns_of_a_file_keep_their_order_whatever_the_order_of_the_settings(tmp_path: Path) -> None:
    written(tmp_path / "d.csv", ["a", "n", "b", "y"], [("u", 1, "v", "p"), ("u", 2, "v", "q")])
    written(tmp_path / "t.csv", ["b", "y", "n", "a"], [("v", "q", 3, "w")])
    stated = {"classes": ("q", "p", "r"), "categories": {"b": ("v",), "a": ("w", "u")}}
    raw = read(tmp_path, file="d.csv", test_file="t.csv", **stated)
    assert raw.features == ("a=w", "a=u", "n", "b=v")
    assert raw.x.tolist() == [[0, 1, 1, 1], [0, 1, 2, 1]]
    assert (raw.test_x.tolist(), raw.test_y.tolist()) == ([[1, 0, 3, 1]], [0])
    assert (raw.y.tolist(), raw.test_columns["a"].tolist()) == ([1, 0], ["w"])


def test_labels_of_any_format_are_compared_as_golfsim_names_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "i.npz", x=np.eye(3), y=np.array([3, 5, 3]))
    np.savez(tmp_path / "f.npz", x=np.eye(3), y=np.array([3.0, 5.0, 3.0]))
    np.savez(tmp_path / "b.npz", x=np.eye(3), y=np.array([True, False, True]))
    (tmp_path / "d.svm").write_text("3 1:1\n5 2:1\n3 1:1\n", encoding="utf-8")
    for file in ("i.npz", "f.npz", "d.svm"):
        assert read(tmp_path, file=file, classes=(5, 4, 3)).y.tolist() == [2, 0, 2]
        assert read(tmp_path, file=file, classes=("5", "4", "3")).classes == ("5", "4", "3")
    assert read(tmp_path, file="b.npz", classes=("True", "False")).y.tolist() == [0, 1, 0]


def test_large_labels_have_different_names(tmp_path: Path) -> None:
    (tmp_path / "d.svm").write_text("12345678 1:1\n12345679 1:1\n", encoding="utf-8")
    assert read(tmp_path, file="d.svm").classes == ("12345678", "12345679")


@pytest.mark.parametrize(("first", "text"), [(0, "0:5 2:7"), (1, "1:5 3:7"), (4, "4:5 6:7")])
def test_stated_indices_give_the_features_of_an_svmlight_file(tmp_path: Path, first: int, text: str) -> None:
    (tmp_path / "d.svm").write_text(f"1 {text}\n0 {first + 1}:2\n", encoding="utf-8")
    (tmp_path / "t.svm").write_text("1\n", encoding="utf-8")
    raw = read(tmp_path, file="d.svm", test_file="t.svm", classes=(0, 1), indices=(first, first + 4))
    assert raw.x.tolist() == [[5, 0, 7, 0, 0], [0, 2, 0, 0, 0]]
    assert raw.test_x.tolist() == [[0] * 5]
    assert raw.features == ("x0", "x1", "x2", "x3", "x4")


def test_the_same_file_with_other_stated_values_is_read_again(tmp_path: Path) -> None:
    file = people(tmp_path / "a.csv")
    for stated in (("no", "yes"), ("yes", "no"), ("yes", "no", "perhaps")):
        config = DataConfig(file=file, test=3, classes=stated)
        assert loading.load(config, 1, tmp_path).classes == stated
    for jobs in (JOBS, JOBS[::-1]):
        config = DataConfig(file=file, test=3, categories={"job": jobs})
        assert loading.load(config, 1, tmp_path).features == (*(f"job={job}" for job in jobs), "hours")


def test_a_data_frame_can_have_stated_values() -> None:
    frame = pd.DataFrame({"job": ["clerk", "nurse"] * 4, "hours": range(8), "answer": ["yes", "no", "no", "yes"] * 2})
    tree = {"name": "own", "seed": 1, "cycles": 1, "data": {"test": 2} | STATED, "protocol": []}
    scenario = Scenario.of(tree | {"protocol": [{"name": "p", "use": "uniform"}]}, data=frame)
    data = loading.load(scenario.data, 1, scenario.folder)
    assert data.features == ("job=nurse", "job=clerk", "job=astronaut", "hours")
    assert loading.caveat(scenario.data, scenario.folder) == ""


@needs_jit
@pytest.mark.parametrize("name", ["golf", "data_perturbation", "gradient_perturbation", "regularised_erm"])
def test_a_stated_class_may_have_no_records(tmp_path: Path, name: str) -> None:
    stated = {"classes": ["no", "perhaps", "yes"], "categories": STATED["categories"]}
    data = {"file": people(tmp_path / "a.csv"), "test": 4, "scale": ["minmax", "l1"], "bounds": [0, 1]} | stated
    tree = contract_tree(ENTRIES[name], cycles=3) | {"data": data, "nodes": {"records": 1}}
    simulation = Simulation(Scenario.of(tree, tmp_path))
    for _ in simulation:
        pass
    assert simulation.raw is not None
    assert simulation.raw.classes == 3


# Messages


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"categories": {"job": ("nurse",)}},
            "data.file: a.csv, record 1: column “job” is “clerk”, but data.categories.job lists only “nurse”\n"
            "    correct the value, or add it to data.categories.job if it is known without the records",
        ),
        (
            {"classes": ("yes", "maybe")},
            "data.file: a.csv, record 4: the label is “no”, but data.classes lists only “yes”, “maybe”\n"
            "    correct the value, or add it to data.classes if it is known without the records",
        ),
        (
            {"categories": {}},
            "data.file: a.csv, record 1: column “job” is “clerk”, and data.categories does not list this column\n"
            "    correct the value if it must be a number; otherwise state the categories of the column",
        ),
        (
            {"categories": {"jib": JOBS}},
            "data.categories: there is no column “jib” in data.file\n    did you mean “job”?",
        ),
        (
            {"categories": {"job": JOBS, "answer": ("no", "yes")}},
            "data.categories: “answer” is the label\n    state its values as classes in [data]",
        ),
        (
            {"indices": (1, 2)},
            "data.indices: only svmlight files have feature indices\n    remove indices",
        ),
        (
            {"test_file": "t.csv", "categories": {"job": JOBS}},
            "data.test_file: t.csv, record 2: column “job” is “pilot”, but data.categories.job lists only “nurse”, "
            "“clerk”, “astronaut”\n    correct the value, or add it to data.categories.job if it is known without the "
            "records",
        ),
        (
            {"test_file": "t.csv", "classes": ("no", "yes")},
            "data.test_file: t.csv, record 2: the label is “perhaps”, but data.classes lists only “no”, “yes”\n"
            "    correct the value, or add it to data.classes if it is known without the records",
        ),
        (
            {"file": "n.csv", "categories": {}},
            "data.file: n.csv, record 2: column “x” is “ten”, and data.categories does not list this column\n"
            "    correct the value if it must be a number; otherwise state the categories of the column",
        ),
        (
            {"file": "n.csv", "categories": {"x": tuple("123456789abc")}},
            "data.file: n.csv, record 2: column “x” is “ten”, but data.categories.x lists only “1”, “2”, “3”, “4”, "
            "“5”, “6”, “7”, “8”, “9”, “a”, …\n    correct the value, or add it to data.categories.x if it is known "
            "without the records",
        ),
        (
            {"file": "d.svm", "indices": (1, 4)},
            "data.file: d.svm, record 2: the feature index 5 is not from 1 to 4, as data.indices states\n"
            "    correct the record, or state other indices if they are known without the records",
        ),
        (
            {"file": "d.svm", "test_file": "z.svm", "indices": (1, 5)},
            "data.test_file: z.svm, record 1: the feature index 0 is not from 1 to 5, as data.indices states\n"
            "    correct the record, or state other indices if they are known without the records",
        ),
        (
            {"file": "d.svm", "categories": {}},
            "data.categories: only CSV and Parquet files have text columns\n    remove categories",
        ),
    ],
)
def test_a_value_that_is_not_stated_is_refused_with_its_place(
    tmp_path: Path, data: dict[str, Any], message: str
) -> None:
    people(tmp_path / "a.csv")
    written(tmp_path / "t.csv", ["job", "hours", "answer"], [("clerk", 1, "no"), ("pilot", 1, "perhaps")])
    written(tmp_path / "n.csv", ["x", "y"], [(1, 0), ("ten", 1)])
    (tmp_path / "d.svm").write_text("1 1:1\n0 2:1 5:1\n", encoding="utf-8")
    (tmp_path / "z.svm").write_text("1 0:1\n", encoding="utf-8")
    assert refused(tmp_path, **({"file": "a.csv"} | data)) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"classes": ("a", "b", "a")}, "classes: “a” occurs 2 times"),
        ({"classes": (1, "1")}, "classes: “1” occurs 2 times"),
        ({"classes": ("a",)}, "at least 2 items"),
        ({"categories": {"job": ("a", "b", "b")}}, "categories.job: “b” occurs 2 times"),
        ({"categories": {"job": ()}}, "at least 1 item"),
        ({"categories": {"job": tuple(map(str, range(1001)))}}, "at most 1000 items"),
        ({"indices": (2, 1)}, "indices: expected the first index, then the last; got 2, 1"),
        ({"indices": (-1, 1)}, "greater than or equal to 0"),
    ],
)
def test_a_list_that_cannot_be_right_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        DataConfig.model_validate({"file": "a.csv"} | data)
