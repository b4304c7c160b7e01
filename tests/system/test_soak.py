"""The soak itself: it draws valid scenarios of every protocol, always the same, and notices what it looks for."""

import json
import random
from collections import Counter

import pytest
from entries import ENTRIES
from soak import cases, faults, scenarios

from golfsim.core.files import checksum


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.parametrize("name", ENTRIES)
def test_valid_scenarios_of_every_protocol_are_drawn(name):
    first, again, another = (scenarios.draw(random.Random(seed), name, several=True) for seed in (1, 1, 2))
    assert first == again != another


def forge(case):
    """Replace a log by that of another run, with a right checksum."""
    case.ended(case.start("--workers", 1), 0)
    one, other = sorted(case.out.rglob("log.parquet"))[:2]
    one.write_bytes(other.read_bytes())
    about = json.loads((one.parent / "run.json").read_text())
    about["sha256"]["log.parquet"] = checksum(one)
    (one.parent / "run.json").write_text(json.dumps(about))


def leave(case):
    """Leave a temporary file."""
    (case.folder / "tmp/left").touch()


def grumble(case):
    """End a command in a traceback."""
    with case.errors.open("a") as errors:
        errors.write("Traceback (most recent call last)\n")


def abort(case):
    """End a command with a status that is not expected."""
    case.ended(case.golfsim("status", case.folder / "nowhere"), 0)


FINDINGS = {forge: "other rows", leave: "files are left: tmp/left", grumble: "a traceback", abort: "exit status 2"}


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.parametrize("fault", FINDINGS, ids=lambda fault: fault.__name__)
def test_what_the_soak_looks_for_is_noticed(fault, tmp_path, monkeypatch):
    text = 'name = "soak"\nseed = 1\ncycles = 3\nruns = 2\n[nodes]\nnumber = 5\n'
    (tmp_path / "s.toml").write_text(text + '[[protocol]]\nname = "peers"\nuse = "newscast"\nview = 3\n')
    monkeypatch.setitem(faults.FAULTS, fault.__name__, fault)
    case = faults.Case(tmp_path, random.Random(1), [])
    with pytest.raises(faults.Failed, match=FINDINGS[fault]):
        cases.disturb(case, fault.__name__, Counter())
    assert case.close() == []
