"""State which files of a run hold private records, or allow someone to reconstruct them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from golfsim.core.paths import INDEX
from golfsim.sim.log import ABOUT, LOG, SCENARIO
from golfsim.sim.tables import FILES

if TYPE_CHECKING:
    from golfsim.runs.single import Task
    from golfsim.sim.simulation import Simulation

TRACE = "error.txt"
SEED = "the seed, from which the noise of this run can be computed and removed"
FAILURE = "the message of a failure, which may quote records"
TABLES = {
    "nodes": f"{SEED}; errors of single nodes, computed from their models",
    "links": SEED,
    "degrees": SEED,
    "spent": f"{SEED}; how many records spent which ε",
}


def files_of(simulation: Simulation, task: Task) -> dict[str, str]:
    """Return the files from which private records can be learned, by name or pattern, each with the reason.

    Names are relative to the folder of the run. A run without data has none.
    """
    if simulation.raw is None:
        return {}
    up = "../" * (len(Path(task.point.folder).parts) + 1)
    return {
        "checkpoint-*": "the complete state of an interrupted run: the models and the published vectors of all nodes",
        ".*": "an incomplete copy of one of these files, if the process was killed while it wrote",
        LOG: f"{SEED}; metrics, some of which are computed from private labels",
        **{FILES[name]: TABLES[name] for name in simulation.log.tables},
        SCENARIO: SEED,
        ABOUT: f"{SEED}; {FAILURE}",
        TRACE: FAILURE,
        f"{up}{Path(INDEX).stem}.*": f"{SEED}; {FAILURE}",
    }
