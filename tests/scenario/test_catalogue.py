"""The lists of what there is, and the JSON schema of scenario files."""

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from golfsim.cli import completion, scaffold
from golfsim.core.settings import Share
from golfsim.protocol.base import Layer
from golfsim.protocol.loading import installed
from golfsim.protocol.overlay import Overlay
from golfsim.scenario import catalogue

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted((ROOT / "scenarios").rglob("*.toml"))
QUICKSTART = (ROOT / "scenarios" / "quickstart.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (str, "text"),
        (int | None, "integer"),
        (int | float, "integer | number"),
        (bool, "true | false"),
        (dict[str, Any], "table"),
        (Literal["a", "b"], '"a" | "b"'),
        (tuple[int, int], "list of integer"),
        (tuple[Literal["a", "b"], ...], 'list of "a" | "b"'),
        (Annotated[int, Field(ge=1)] | Literal["log"], 'integer ≥ 1 | "log"'),
        (Share, "number from 0 to 1"),
        (Layer[Overlay[Any]], "name of an earlier layer (overlay)"),
    ],
)
def test_a_type_has_a_name_for_readers(annotation, name):
    assert catalogue.type_name(annotation) == name


def test_a_setting_has_name_type_bounds_default_and_meaning():
    class Table(BaseModel):
        size: int = Field(alias="largeness", gt=0, lt=7, description="how large")
        seed: int = Field(3, ge=0, lt=2**53)
        scale: tuple[str, ...] = ("l1", "l2")
        nothing: str | None = None

    assert catalogue.settings_of(Table, {"nothing"}) == [
        {"name": "largeness", "type": "integer > 0 and < 7", "about": "how large", "required": True},
        {"name": "seed", "type": "integer ≥ 0", "about": "", "required": False, "default": 3},
        {"name": "scale", "type": "list of text", "about": "", "required": False, "default": ["l1", "l2"]},
    ]


def test_the_shell_completes_all_topics():
    assert (*catalogue.TOPICS, "metrics") == completion.TOPICS


@pytest.mark.parametrize("topic", catalogue.TOPICS)
def test_everything_that_is_listed_is_explained(topic):
    entries = catalogue.TOPICS[topic]()
    assert entries
    for entry in entries:
        assert entry["about"], entry["name"]
        for setting in entry["settings"]:
            assert setting["about"], (entry["name"], setting["name"])


def test_every_installed_protocol_is_listed_with_its_own_settings():
    listed = {entry["name"]: {setting["name"] for setting in entry["settings"]} for entry in catalogue.protocols()}
    assert listed.keys() == installed().keys()
    assert "view" in listed["newscast"]
    assert "lambda" in listed["golf"]
    assert "every" not in listed["golf"]


def test_data_sets_are_listed_with_their_sizes():
    about = {entry["name"]: entry["about"] for entry in catalogue.datasets()}
    assert "4601 records, 57 features, 2 classes" in about["spambase"]
    assert "golfsim data fetch mnist" in about["mnist"]


def test_the_shipped_schema_is_up_to_date():
    # If not: golfsim schema > scenarios/scenario.schema.json
    assert (ROOT / "scenarios" / scaffold.SCHEMA).read_text(encoding="utf-8") == scaffold.schema_text()


@pytest.fixture(scope="module")
def validator():
    schema = json.loads((ROOT / "scenarios" / scaffold.SCHEMA).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_the_schema_accepts_what_is_shipped(validator, file):
    problems = [error.message for error in validator.iter_errors(tomllib.loads(file.read_text(encoding="utf-8")))]
    assert problems == []


@pytest.mark.parametrize(
    "more",
    [
        '[churn]\nkind = "crash"\nat = 3\nshare = 0.5',
        '[[churn]]\nkind = "rate"\nleave = 0.1\nrejoin = 1.0',
        '[[protocol]]\nname = "mine"\nuse = "mine.py:Mine"\nanything = 3',
        "[transport]\ndelay = [1, 3]",
        '[variables]\nloss = 0.1\n[transport]\nloss = "$loss"\n',
        '[[protocol]]\nname = "other"\nuse = "newscast"\nview = "$view * 2"\n',
        '[[case]]\nlabel = "a"\njudged = "x"\n[[case.layers]]\nname = "x"\nuse = "newscast"\nview = 3\n',
    ],
)
def test_the_schema_accepts_what_may_be_added(validator, more):
    assert validator.is_valid(tomllib.loads(f"{QUICKSTART}\n{more}\n"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed = 1", ""),
        ("seed = 1", "seed = -1"),
        ("seed = 1", 'seed = "1"'),
        ("seed = 1", "sede = 1\nseed = 1"),
        ("view = 20", ""),
        ("view = 20", "view = 0"),
        ("view = 20", "view = 20\nveiw = 1"),
        ('use = "newscast"', 'use = "newcast"'),
        ('learner = "pegasos"', 'learner = "pegasus"'),
        ('scale = ["minmax", "l1"]', 'scale = ["l7"]'),
        ('every = "log"', 'every = "never"'),
        ("[observe]", '[churn]\nkind = "crsh"\n[observe]'),
        ("[observe]", '[churn]\nkind = "rate"\nleave = 0.1\ncome_back = 0.1\n[observe]'),
        ("[observe]", "[transport]\nloss = 2\n[observe]"),
    ],
)
def test_the_schema_refuses_what_the_program_refuses(validator, old, new):
    assert QUICKSTART.count(old) == 1
    assert not validator.is_valid(tomllib.loads(QUICKSTART.replace(old, new)))
