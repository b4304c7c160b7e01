"""Write runs as offline runs of Weights & Biases. golfsim sends nothing; `wandb sync` does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from golfsim.share.exported import SUMMARY, Exported, Group, Sent, imported

ID = 16  # digits of a hash that identify a run
DONE = "exported"  # the file that marks a complete run
ALL = "offline-run-*"


def export(group: Group, out: Path) -> Sent:
    """Write the runs of a group to the folder `wandb` in a folder."""
    wandb = imported("wandb", "wandb")
    out.mkdir(parents=True, exist_ok=True)
    new = [run for run in group.runs if not _is_known(out, run.key)]
    for run in new:
        _add(wandb, group, out, run)
    if not _is_known(out, group.hash):
        with group.files() as files, _run(wandb, group, out, SUMMARY, group.hash) as made:
            _save(made, files)
    return Sent(len(new), len(group.runs) - len(new))


def _is_known(out: Path, key: str) -> bool:
    """Return whether a complete run exists; an incomplete one, of an interrupted export, is deleted."""
    folders = list((out / "wandb").glob(f"{ALL}-{key[:ID]}"))
    for folder in folders:
        if not (folder / DONE).is_file():
            shutil.rmtree(folder)
    return any(folder.exists() for folder in folders)


def _add(wandb: Any, group: Group, out: Path, run: Exported) -> None:
    with _run(wandb, group, out, run.name, run.key) as made:
        made.config.update(run.settings | run.tags)
        made.define_metric("cycle")
        made.define_metric("*", step_metric="cycle")
        for cycle, found in run.metrics():
            made.log({"cycle": cycle} | found, step=cycle)
        _save(made, [run.scenario])


@contextmanager
def _run(wandb: Any, group: Group, out: Path, name: str, key: str) -> Iterator[Any]:
    settings = wandb.Settings(
        mode="offline", console="off", silent=True, disable_git=True, disable_code=True, save_code=False,
        x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True, x_save_requirements=False,
    )  # fmt: skip
    project = re.sub(r"[^\w. -]", "_", group.name)
    made = wandb.init(project=project, group=group.name, name=name, id=key[:ID], dir=str(out), settings=settings)
    folder = Path(made.dir).parent
    yield made
    made.finish()
    (folder / DONE).touch()


def _save(made: Any, files: list[Path]) -> None:
    for file in files:
        copied = shutil.copy(file, made.dir)
        made.save(str(copied), base_path=made.dir, policy="now")
