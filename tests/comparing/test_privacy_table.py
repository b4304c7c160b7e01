"""What makes ε comparable: one row per strategy, from what runs store, in comparisons and on pages."""

import json
from functools import partial

import pytest
from helpers import HERE, command, learning_tree, tree

from golfsim.comparing.planning import too_few_runs
from golfsim.comparing.privacy_table import privacy_columns, privacy_rows
from golfsim.report import page
from golfsim.runs import results, single
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import points

PEERS = {"name": "peers", "use": "newscast", "view": 4}
GOLF = {"name": "golf", "use": "golf", "peers": "peers", "records": "raw"}
LOCAL = {"name": "local", "use": "regularised_erm", "lambda": 0.1}
GROUP = {"name": "group", "use": "group_aggregation", "local": "local", "peers": "peers", "group": 3, "epsilon": 2.0}
CASES = [
    {
        "label": "published",
        "layers": [
            {"name": "published", "use": "data_perturbation", "epsilon": "$epsilon"},
            GOLF | {"records": "published"},
        ],
    },
    {"label": "groups", "layers": [LOCAL, GROUP | {"trust": "curator"}]},
    {"label": "no privacy", "layers": [GOLF]},
]


def study(**tables):
    data = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
    how = {"variables": {"epsilon": 1.0}, "sweep": {"variables.epsilon": [1.0, 4.0]}, "case": CASES} | tables
    return Scenario.of(learning_tree(PEERS, number=10, cycles=4, data=data, runs=2, **how), HERE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("privacy") / "study"
    single.run(study(), out)
    return out


def test_each_strategy_has_a_row_with_unit_release_trust_spent_and_guarantee(folder):
    published, groups, plain = privacy_rows(results.find([folder]), "case")
    assert (published.stated, published.unit, published.released) == ("1 and 4", "record", "records with noise")
    assert (published.trust, published.spent_max, published.guarantee) == ("nobody", "1 and 4", "proven")
    assert (groups.stated, groups.released) == ("2", "the mean of each group with noise")
    assert groups.trust == "the curator, who sees the sum"
    assert groups.guarantee == "proven: curator trusted"
    assert (plain.stated, plain.released, plain.trust) == ("–", "models without noise", "all nodes")
    assert (plain.spent_mean, plain.guarantee) == ("–", "none")


def test_gaussian_noise_is_stated_with_its_delta(tmp_path):
    layer = {"name": "published", "use": "data_perturbation", "epsilon": 1.0}
    layer |= {"noise": "gaussian", "delta": 1e-5, "norm": "l2"}
    data = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l2"]}
    single.run(Scenario.of(learning_tree(layer, number=10, cycles=2, data=data), HERE), tmp_path)
    (row,) = privacy_rows(results.find([tmp_path]), None)
    assert row.guarantee == "proven at δ = 1e-05"


def test_the_columns_of_the_terminal_have_one_strategy_each(folder):
    (table,) = privacy_columns(privacy_rows(results.find([folder]), "case"))
    assert table.header == ("", "published", "groups", "no privacy")
    assert table.rows[0] == ("ε stated", "1 and 4", "2", "–")


def test_results_without_private_records_have_no_such_table(tmp_path):
    single.run(Scenario.of(tree(PEERS, nodes=5, cycles=2), HERE), tmp_path)
    assert privacy_rows(results.find([tmp_path]), None) == []


def test_the_page_has_the_table(folder):
    text = page.html(results.find([folder]))
    assert "What makes ε comparable" in text
    assert "the curator, who sees the sum" in text


def test_the_command_prints_the_table_and_writes_csv_latex_and_json(folder, capsys, monkeypatch):
    compare = partial(command, capsys, monkeypatch, "compare", folder, "--baseline", "no privacy")
    code, out, _ = compare()
    assert code == 0
    assert "What makes ε comparable" in out
    found = json.loads(compare("--json")[1])
    assert found["baseline"] == "no privacy"
    assert found["privacy"][0]["released"] == "records with noise"
    assert compare("--csv")[1].startswith("block,strategy,runs,mean,")
    assert r"\begin{tabular}{lrr}" in compare("--latex")[1]
    code, _, err = compare("--csv", "--latex")
    assert code == 2
    assert "exclude each other" in err


def test_too_few_runs_are_reported_before_the_run():
    text = too_few_runs(points(study()))
    assert "makes 6 comparisons of these 3 cases" in text
    assert "needs at least 8 runs, or 8 with --baseline (runs = 2)" in text
    assert too_few_runs(points(study().change({"runs": 8}))) == ""
    assert too_few_runs(points(study().change({"case": [], "protocol": [PEERS, GOLF]}))) == ""
