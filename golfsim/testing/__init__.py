"""Test a protocol or a learner of your own against the contract that all of them fulfil.

In a test of your own::

    from pathlib import Path
    from golfsim.testing import contract, learner_contract

    FOLDER = Path(__file__).parent

    def test_my_protocol_fulfils_the_contract():
        contract(
            {"use": "push_sum.py:PushSum", "peers": "peers"}, below=[{"name": "peers", "use": "uniform"}], folder=FOLDER
        )

    def test_my_learner_fulfils_the_contract():
        learner_contract("my_learner.py:MyLearner", folder=FOLDER)

`contract` and `learner_contract` run every check and name the first one that fails. `CHECKS` and `LEARNER_CHECKS` have
them by name, for a test per check.
"""

from golfsim.testing.learners import LEARNER_CHECKS, Case, learner_contract
from golfsim.testing.protocols import (
    CHECKS,
    CHURN,
    CYCLES,
    DATA,
    FAULTS,
    NODES,
    Subject,
    complaint,
    contract,
    known_state,
    per_node,
    rows,
    state,
)

__all__ = [
    "CHECKS", "CHURN", "CYCLES", "DATA", "FAULTS", "LEARNER_CHECKS", "NODES", "Case", "Subject", "complaint",
    "contract", "known_state", "learner_contract", "per_node", "rows", "state",
]  # fmt: skip
