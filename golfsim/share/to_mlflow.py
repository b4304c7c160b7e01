"""Copy runs to MLflow: an experiment per group, a parent run with page and figures, and a child run per run."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError
from golfsim.share.exported import SUMMARY, Exported, Group, Sent, imported

NOT_ALLOWED = re.compile(r"[^\w./ :-]")  # in names of MLflow
LONGEST = 5000  # characters of a value
PARAMS, METRICS = 100, 1000  # the most that MLflow accepts in one request
KEY, GROUP = "golfsim.key", "golfsim.group"


def export(group: Group, uri: str) -> Sent:
    """Add the runs of a group to the MLflow server or database at an address."""
    tracking, errors = imported("mlflow.tracking", "mlflow"), imported("mlflow.exceptions", "mlflow")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        return _export(tracking.MlflowClient(_absolute(uri)), group)
    except (errors.MlflowException, ImportError) as error:
        why = (str(error) or type(error).__name__).splitlines()[0]
        missing = 'install this package; for files of SQLite: pip install "golfsim[mlflow]"'
        hint = missing if isinstance(error, ImportError) else "check the address after --uri"
        raise UserError(f"MLflow at {uri}: {why}", hint=hint, docs="reports") from None


def _absolute(uri: str) -> str:
    """Return the address of a database file with its full path: MLflow would remember the first working folder."""
    file = re.fullmatch(r"sqlite:///([^/].*)", uri)
    return f"sqlite:///{Path(file[1]).absolute()}" if file else uri


def _export(client: Any, group: Group) -> Sent:
    there = client.get_experiment_by_name(group.name)
    experiment = there.experiment_id if there else client.create_experiment(group.name)
    parent = _found(client, experiment, GROUP, SUMMARY) or _parent(client, experiment)
    with group.files() as files:
        for file in files:
            client.log_artifact(parent, str(file))
    new = [run for run in group.runs if _found(client, experiment, KEY, run.key) is None]
    for run in new:
        _add(client, experiment, parent, run)
    return Sent(len(new), len(group.runs) - len(new))


def _parent(client: Any, experiment: str) -> str:
    made = client.create_run(experiment, run_name=SUMMARY, tags={GROUP: SUMMARY}).info.run_id
    client.set_terminated(made)
    return str(made)


def _found(client: Any, experiment: str, tag: str, value: str) -> str | None:
    found = client.search_runs([experiment], f"tags.`{tag}` = '{value}'", max_results=1)
    return str(found[0].info.run_id) if found else None


def _add(client: Any, experiment: str, parent: str, run: Exported) -> None:
    entities = imported("mlflow.entities", "mlflow")
    begin, end = (round(1000 * second) for second in run.times)
    tags = _checked(run.tags | {"mlflow.parentRunId": parent})
    made = client.create_run(experiment, start_time=begin, run_name=run.name, tags=tags).info.run_id
    params = [entities.Param(key, value) for key, value in _checked(run.settings).items()]
    metrics = [
        entities.Metric(NOT_ALLOWED.sub("_", name), value, end, cycle)
        for cycle, found in run.metrics()
        for name, value in found.items()
    ]
    for first in range(0, len(params), PARAMS):
        client.log_batch(made, params=params[first : first + PARAMS])
    for first in range(0, len(metrics), METRICS):
        client.log_batch(made, metrics=metrics[first : first + METRICS])
    client.log_artifact(made, str(run.scenario))
    client.set_terminated(made, end_time=end)
    client.set_tag(made, KEY, run.key)  # last: it marks a complete run


def _checked(table: dict[str, Any]) -> dict[str, str]:
    return {NOT_ALLOWED.sub("_", key): str(value)[:LONGEST] for key, value in table.items()}
