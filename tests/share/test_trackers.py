"""Trackers: read back by their own readers. Each test is skipped if its tracker is not installed."""

import json
import math
import struct
from functools import partial
from pathlib import Path

import pytest
import tomlkit
from helpers import command, learning_tree

import golfsim
from golfsim.scenario.model import Scenario
from golfsim.share import exported
from golfsim.sim.log import Log

UNIFORM = {"name": "peers", "use": "uniform"}
PUBLISHED = {"name": "published", "use": "data_perturbation", "records": "raw", "epsilon": 5.0}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "published"}
SWEEP = learning_tree(
    UNIFORM, PUBLISHED, GOLF, cycles=3, runs=2, sweep={"published.epsilon": [1.0, 10.0]},
    data={"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]},
)  # fmt: skip
NAMES = [f"published.epsilon = {epsilon}, run {run}" for epsilon in (1.0, 10.0) for run in (1, 2)]
METRIC = "learning/error.mean"
PROMISE = "ε = 10 per record, proven"


@pytest.fixture
def golfsim_(capsys, monkeypatch, tmp_path):
    """Run a command in this process, in an empty folder: (exit status, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return partial(command, capsys, monkeypatch)


@pytest.fixture
def results(golfsim_, tmp_path):
    """The results of a small sweep, with a figure."""
    (tmp_path / "sweep.toml").write_text(tomlkit.dumps(SWEEP), encoding="utf-8")
    assert golfsim_("run", "sweep.toml", "--workers", 1)[0] == 0
    return tmp_path / "results/sweep"


def curve(results, epsilon=10.0, run=2):
    """Cycles and values of the error of one run, from golfsim's own log."""
    frame = golfsim.load(results)
    rows = frame[(frame["published.epsilon"] == epsilon) & (frame["run"] == run) & (frame["layer"] == "learning")]
    rows = rows[rows["metric"] == "error.mean"]
    return list(zip(rows["cycle"].tolist(), rows["value"].tolist(), strict=True))


def test_a_run_is_exported_with_settings_metrics_and_tags(results):
    group = exported.of(results)
    assert group.name == "sweep"
    assert [run.name for run in group.runs] == NAMES
    last = group.runs[-1]
    assert (last.settings["published.epsilon"], last.settings["run"], last.settings["seed"]) == (10.0, 2, 2)
    assert last.settings["learning.learner"] == "pegasos", "defaults are explicit"
    assert [(cycle, found[METRIC]) for cycle, found in last.metrics()] == curve(results)
    assert last.tags["golfsim.guarantee.published"] == PROMISE
    assert last.tags["golfsim.hash"] == json.loads((last.scenario.parent / "run.json").read_text())["hash"]
    assert last.tags["golfsim.version"] == golfsim.__version__
    assert len({run.key for run in group.runs}) == 4
    assert str(results.parent) not in group.page()


def test_values_that_are_not_finite_are_left_out(tmp_path):
    log = Log(1, 1)
    log.add(1, {"learning": {"error.mean": math.nan, "age.mean": math.inf}})
    log.add(2, {"learning": {"error.mean": 0.5, "age.mean": math.nan}})
    log.write(tmp_path / "r", 'name = "a test"\n', {"hash": "0123456789", "status": "finished"})
    (run,) = exported.of(tmp_path / "r").runs
    assert list(run.metrics()) == [(2, {METRIC: 0.5})]


def test_times_are_those_of_the_run_in_any_time_zone(tmp_path):
    about = {"hash": "0123456789", "status": "finished", "written": "1970-01-01T02:00:00+0100"}
    Log(1, 1).write(tmp_path / "r", 'name = "a test"\n', about | {"times": {"setup_s": 2.0, "cycles_s": 598.0}})
    (run,) = exported.of(tmp_path / "r").runs
    assert run.times == (3000.0, 3600.0)


def test_the_note_of_generated_data_is_exported(tmp_path):
    tree = learning_tree(UNIFORM, GOLF | {"records": "raw"}, cycles=1, data={"set": "mooc", "scale": ["minmax"]})
    golfsim.run(Scenario.of(tree), tmp_path / "r")
    (run,) = exported.of(tmp_path / "r").runs
    assert run.tags["golfsim.note"].startswith("mooc: generated data in place of")


def test_a_tracker_that_is_not_installed_is_named_with_its_extra(golfsim_, results, monkeypatch):
    for tracker, module in (
        ("mlflow", "mlflow.tracking"), ("wandb", "wandb"), ("tensorboard", "tensorboard.compat.proto.event_pb2"),
    ):  # fmt: skip
        monkeypatch.setitem(__import__("sys").modules, module, None)
        code, out, err = golfsim_("export", tracker, results)
        assert (code, out) == (2, "")
        assert f'pip install "golfsim[{tracker}]"' in err
        assert "Traceback" not in err


def test_a_run_without_its_facts_is_refused(golfsim_, results):
    next(results.rglob("run.json")).write_text("{}")
    code, _, err = golfsim_("export", "tensorboard", results)
    assert code == 2
    assert "run.json is missing or damaged" in err


def test_mlflow_reads_what_was_exported(golfsim_, results, tmp_path):
    tracking = pytest.importorskip("mlflow.tracking")
    pytest.importorskip("alembic")
    assert golfsim_("export", "mlflow", results)[:2] == (0, "4 new runs in MLflow at sqlite:///mlflow.db\n")
    client = tracking.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("sweep")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert sorted(runs) == ["all runs", *NAMES]
    last, parent = runs[NAMES[-1]], runs["all runs"]
    assert last.info.status == "FINISHED"
    assert last.data.params["published.epsilon"] == "10.0"
    assert last.data.params["learning.learner"] == "pegasos"
    assert last.data.tags["golfsim.guarantee.published"] == PROMISE
    assert last.data.tags["mlflow.parentRunId"] == parent.info.run_id
    history = client.get_metric_history(last.info.run_id, METRIC)
    assert [(metric.step, metric.value) for metric in history] == curve(results)
    files = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert files == {"report.html", "convergence.png", "convergence.svg"}
    assert [file.path for file in client.list_artifacts(last.info.run_id)] == ["scenario.toml"]


def test_a_second_export_to_mlflow_adds_only_what_is_new(golfsim_, results, tmp_path):
    tracking = pytest.importorskip("mlflow.tracking")
    pytest.importorskip("alembic")
    golfsim_("export", "mlflow", results)
    told = golfsim_("export", "mlflow", results)[1]
    assert told == "0 new runs in MLflow at sqlite:///mlflow.db; 4 runs of this folder existed before\n"
    golfsim_("run", "sweep.toml", "--set", "runs=3", "--workers", 1)
    assert golfsim_("export", "mlflow", results)[1].startswith("2 new runs in MLflow")
    client = tracking.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("sweep")
    assert len(client.search_runs([experiment.experiment_id])) == 7


def test_an_address_of_mlflow_that_does_not_answer_is_an_error(golfsim_, results):
    pytest.importorskip("mlflow.tracking")
    code, out, err = golfsim_("export", "mlflow", results, "--uri", "nothing://here")
    assert (code, out) == (2, "")
    assert "MLflow at nothing://here" in err
    assert "Traceback" not in err


def records_of(file, kind):
    """The records of a file of W&B: blocks of 32 KiB with chunks, each after its checksum, length and type."""
    content, place, whole = Path(file).read_bytes(), 7, b""
    while place + 7 <= len(content):
        rest = 32768 - place % 32768
        if rest < 7:
            place += rest
            continue
        _, length, part = struct.unpack("<IHB", content[place : place + 7])
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if part in (1, 4):  # complete, or the last chunk
            yield kind.FromString(whole)
            whole = b""


def test_offline_runs_of_wandb_have_everything(golfsim_, results, tmp_path):
    pytest.importorskip("wandb")
    proto = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    code, out, _ = golfsim_("export", "wandb", results)
    assert (code, out) == (0, "4 new runs in wandb\nto send them: wandb sync wandb/offline-run-*\n")
    runs = {}
    for file in (tmp_path / "wandb").glob("offline-run-*/*.wandb"):
        records = list(records_of(file, proto.Record))
        (name,) = {record.run.display_name for record in records if record.HasField("run")}
        runs[name] = (file.parent, records)
    assert sorted(runs) == ["all runs", *NAMES]
    folder, records = runs[NAMES[-1]]
    assert {record.run.run_group for record in records if record.HasField("run")} == {"sweep"}
    config = {u.key or "/".join(u.nested_key): u.value_json for r in records for u in r.config.update}
    config |= {u.key or "/".join(u.nested_key): u.value_json for r in records for u in r.run.config.update}
    assert json.loads(config["published.epsilon"]) == 10.0
    assert json.loads(config["golfsim.guarantee.published"]) == PROMISE
    history = [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    assert [(row["cycle"], row[METRIC]) for row in history] == curve(results)
    assert (folder / "files/scenario.toml").is_file()
    assert {path.name for path in (runs["all runs"][0] / "files").iterdir()} == {
        "report.html", "convergence.png", "convergence.svg",
    }  # fmt: skip


def test_a_second_export_to_wandb_adds_only_what_is_missing(golfsim_, results, tmp_path):
    pytest.importorskip("wandb")
    golfsim_("export", "wandb", results)
    before = sorted((tmp_path / "wandb").glob("offline-run-*"))
    assert golfsim_("export", "wandb", results)[1].startswith("0 new runs in wandb; 4 runs of this folder existed")
    assert sorted((tmp_path / "wandb").glob("offline-run-*")) == before
    (before[0] / "exported").unlink()  # as after an interruption
    golfsim_("export", "wandb", results)
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 5


def test_tensorboard_reads_what_was_exported(golfsim_, results, tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert golfsim_("export", "tensorboard", results)[:2] == (0, "4 new runs in runs\n")
    folders = sorted((tmp_path / "runs/sweep").iterdir())
    assert [folder.name.rpartition("-")[0] or folder.name for folder in folders] == ["all runs", *NAMES]
    summary, *_, last = (reader.EventAccumulator(str(folder), {"scalars": 0}).Reload() for folder in folders)
    found = [(scalar.step, scalar.value) for scalar in last.Scalars(METRIC)]
    assert [step for step, _ in found] == [cycle for cycle, _ in curve(results)]
    assert [value for _, value in found] == pytest.approx([value for _, value in curve(results)], rel=1e-6)
    (text,) = last.Tensors("golfsim")
    assert PROMISE in text.tensor_proto.string_val[0].decode()
    assert "_hparams_/session_start_info" in last.Tags()["tensors"]
    (image,) = summary.Images("convergence")
    assert image.encoded_image_string == (results / "convergence.png").read_bytes()


def test_a_second_export_to_tensorboard_adds_only_what_is_new(golfsim_, results, tmp_path):
    pytest.importorskip("tensorboard")
    golfsim_("export", "tensorboard", results)
    before = sorted((tmp_path / "runs").rglob("events.*"))
    told = golfsim_("export", "tensorboard", results)[1]
    assert told == "0 new runs in runs; 4 runs of this folder existed before\n"
    assert len(sorted((tmp_path / "runs").rglob("events.*"))) == len(before) == 5
    golfsim_("run", "sweep.toml", "--set", "runs=3", "--workers", 1)
    assert golfsim_("export", "tensorboard", results)[1].startswith("2 new runs in runs")


def test_groups_have_the_name_that_the_user_gives(golfsim_, results, tmp_path):
    pytest.importorskip("tensorboard")
    golfsim_("export", "tensorboard", results, "--group", "../my/study", "--logdir", "events")
    assert [path.name for path in (tmp_path / "events").iterdir()] == ["__my_study"]
