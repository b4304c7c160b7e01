"""The events of a scenario reach figures through the frames of its runs."""

import json

from helpers import HERE, finished, tree

import golfsim
from golfsim.runs import single
from golfsim.scenario.model import Scenario
from golfsim.sim import events

PEERS = {"name": "peers", "use": "newscast", "view": 4}
CRASH = {"kind": "crash", "at": 3, "share": 0.5}
CUT = {"partition": [{"share": 0.5, "from": 2, "until": 4}]}


def test_a_frame_has_the_events_of_its_scenario_in_memory_and_from_files(tmp_path):
    churn = [
        CRASH,
        {"kind": "join", "share": 0.1, "from": 2, "until": 5},
        {"kind": "rate", "leave": 0.1, "rejoin": 0.5},
    ]
    made = tree(PEERS, churn=churn, transport=CUT)
    wanted = [
        {"kind": "joins", "from": 2, "until": 5},
        {"kind": "partition", "from": 2, "until": 4},
        {"kind": "crash", "from": 3, "until": 3},
    ]
    assert events.events_of(finished(made).log.frame()) == wanted
    single.run(Scenario.of(made, HERE), tmp_path)
    frame = golfsim.load(tmp_path)
    assert events.events_of(frame) == wanted
    json.dumps(frame.attrs)  # pandas writes them to files


def test_churn_of_some_cycles_is_an_event():
    rate = {"kind": "rate", "leave": 0.1, "rejoin": 0.5, "from": 3}
    assert events.events_of(finished(tree(PEERS, churn=rate)).log.frame()) == [
        {"kind": "churn", "from": 3, "until": None}
    ]


def test_an_event_of_one_case_belongs_to_its_rows_only(tmp_path):
    cases = [{"label": "calm"}, {"label": "crash", "churn": [CRASH]}]
    made = tree(PEERS, case=cases, sweep={"peers.view": [3, 4]})
    frame = single.run(Scenario.of(made, HERE), tmp_path)
    assert len(frame.attrs[events.EVENTS]) == 1
    assert len(events.events_of(frame)) == 1
    assert events.events_of(frame[frame["case"] == "calm"]) == []
    assert len(events.events_of(frame[(frame["case"] == "crash") & (frame["peers.view"] == 3)])) == 1


def test_a_text_that_is_no_scenario_has_no_events():
    assert events.of_text("[[churn]]\nkind = ") == []
    assert events.of_text('[[churn]]\nkind = "crash"\nat = "x"') == []
    assert events.of_tree({"churn": 3, "transport": []}) == []
