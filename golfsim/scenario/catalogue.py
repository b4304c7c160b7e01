"""Describe all available choices from the code itself: lists for the command line, and the JSON schema."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from golfsim.core.paths import shipped_scenarios
from golfsim.data import placement
from golfsim.data.config import DataConfig
from golfsim.learning.loading import json_schema
from golfsim.network import adversaries, churn, transport
from golfsim.protocol import base, loading
from golfsim.scenario.messages import models_in
from golfsim.scenario.model import Scenario
from golfsim.scenario.tables import ObserveConfig, PlotConfig, PrivacyConfig, StopConfig

if TYPE_CHECKING:
    from golfsim.data.loading import Card

Entry = dict[str, Any]  # name, about, settings

WORDS: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "true | false", dict: "table"}
REFERENCE = {"type": "string", "pattern": r"^\$\w"}  # to a variable
NOT_TEXT = ("number", "integer", "boolean")
UNBOUNDED = 2**31  # larger bounds come from the machine and are not shown


def summary(thing: Any) -> str:
    """Return the first paragraph of a docstring, without the name of the table in front."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.sub(r"^`\[\w+\]`: ", "", text)


def type_name(annotation: Any) -> str:
    """Return the name of a type for readers of scenario files."""
    origin = get_origin(annotation)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in get_args(annotation))
    if origin is Annotated:
        inner, *details = get_args(annotation)
        return type_name(inner) + limits(details)
    kind = origin or annotation
    if isinstance(kind, type) and issubclass(kind, base.Protocol):
        return f"name of an earlier layer ({kind.kind()})"
    arguments = [type_name(a) for a in get_args(annotation) if a not in (type(None), ...)]
    if origin is tuple:
        return f"list of {' | '.join(dict.fromkeys(arguments))}"
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(arguments))
    return WORDS.get(kind, "table")


def limits(details: Iterable[Any]) -> str:
    """Return the bounds among a field's details as text: “ from 0 to 1”, “ ≥ 1”."""
    found: dict[str, Any] = {}
    for detail in details:
        parts = detail.metadata if isinstance(detail, FieldInfo) else [detail]
        found |= {n: getattr(part, n) for part in parts for n in ("ge", "gt", "le", "lt") if hasattr(part, n)}
    found = {name: bound for name, bound in found.items() if abs(bound) < UNBOUNDED}
    if found.keys() == {"ge", "le"}:
        return f" from {found['ge']:g} to {found['le']:g}"
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return " and".join(f" {signs[name]} {bound:g}" for name, bound in found.items())


def settings_of(model: type[BaseModel], leave_out: Iterable[str] = ()) -> list[Entry]:
    """Return the keys of a table: name, type, default, meaning."""
    return [
        {"name": field.alias or name, "type": type_name(field.annotation) + limits(field.metadata)}
        | {"about": field.description or "", "required": field.is_required()}
        | _default(field)
        for name, field in model.model_fields.items()
        if name not in leave_out
    ]


def _default(field: FieldInfo) -> Entry:
    """Return the default, unless it is None, empty or a table."""
    value = field.default
    if field.is_required() or value is None or isinstance(value, BaseModel) or value in ((), {}):
        return {}
    return {"default": list(value) if isinstance(value, tuple) else value}


def protocols() -> list[Entry]:
    """List the installed protocols."""
    schedule = set(base.LayerConfig.model_fields)
    return [
        {"name": name, "about": summary(found), "settings": settings_of(found.Config, schedule)}
        for name, found in ((n, loading.find(n, Path())) for n in loading.installed())
    ]


def datasets() -> list[Entry]:
    """List the data sets that have a card."""
    from golfsim.data.loading import cards

    return [{"name": name, "about": _about_set(card), "settings": []} for name, card in cards().items()]


def _about_set(card: Card) -> str:
    sizes = f"{card.records} records" + (f" + {card.test_records} for testing" if card.test_records else "")
    how = f"; download it first: golfsim data fetch {card.name}" if card.kind == "fetched" else ""
    return f"{card.title}. {sizes}, {card.features} features, {len(card.classes)} classes; {card.kind}{how}"


def learners() -> list[Entry]:
    """List the learners of learning layers."""
    from golfsim.learning.loading import find, installed

    found = {name: find(name) for name in installed()}
    return [
        {"name": name, "about": summary(one), "settings": settings_of(one.Config, {"use"})}
        for name, one in found.items()
    ]


def kinds(annotation: Any) -> list[Entry]:
    """Return one entry for each table that a union of tables, distinguished by `kind`, allows."""
    return [
        {
            "name": get_args(model.model_fields["kind"].annotation)[0],
            "about": summary(model),
            "settings": settings_of(model, {"kind"}),
        }
        for model in models_in(annotation)
    ]


def tables() -> list[Entry]:
    """List the tables of a scenario file, and the settings that all layers share."""
    models: dict[str, type[BaseModel]] = {
        "(top level)": Scenario,
        "data": DataConfig,
        "nodes": placement.NodesConfig,
        "protocol": base.LayerConfig,
        "transport": transport.TransportConfig,
        "transport.partition": transport.PartitionConfig,
        "adversary": adversaries.AdversaryConfig,
        "privacy": PrivacyConfig,
        "observe": ObserveConfig,
        "stop": StopConfig,
        "plot": PlotConfig,
    }
    return [{"name": n, "about": summary(model), "settings": settings_of(model)} for n, model in models.items()]


def churn_models() -> list[Entry]:
    """List the churn models: when nodes are online."""
    return kinds(churn.ChurnConfig)


def splits() -> list[Entry]:
    """List the ways to distribute records over nodes."""
    return kinds(placement.SplitConfig)


def sizes() -> list[Entry]:
    """List the distributions of the number of records per node."""
    return kinds(placement.Sizes)


def scenarios() -> list[Entry]:
    """List the scenarios that come with golfsim; `golfsim run` accepts their names."""
    told = {name: tomllib.loads(path.read_text(encoding="utf-8")) for name, path in shipped_scenarios().items()}
    return [{"name": name, "about": table["name"], "settings": []} for name, table in told.items()]


TOPICS: dict[str, Callable[[], list[Entry]]] = {
    "protocols": protocols,
    "datasets": datasets,
    "learners": learners,
    "churn": churn_models,
    "splits": splits,
    "sizes": sizes,
    "settings": tables,
    "scenarios": scenarios,
}


def topics(known: dict[str, Callable[[], list[Entry]]] = TOPICS) -> list[Entry]:
    """List the available topics."""
    return [{"name": name, "about": summary(listed), "settings": []} for name, listed in known.items()]


def schema() -> dict[str, Any]:
    """Return the JSON schema of scenario files, with the settings of every installed protocol."""
    whole = Scenario.model_json_schema(by_alias=True)
    layers, learner = [], json_schema()
    whole.setdefault("$defs", {})["learner"] = learner
    for name in loading.installed():
        one = loading.find(name, Path()).Config.model_json_schema(by_alias=True)
        whole["$defs"].update(one.pop("$defs", {}))
        for setting in one["properties"].values():
            if setting.get("anyOf") == learner["anyOf"]:
                del setting["anyOf"]
                setting["$ref"] = "#/$defs/learner"
        one["properties"]["use"] = {"const": name, "description": one["properties"]["use"]["description"]}
        whole["$defs"][f"protocol.{name}"] = one
        layers.append({"$ref": f"#/$defs/protocol.{name}"})
    own = {"type": "object", "required": ["name", "use"], "properties": {"use": {"type": "string", "pattern": ":"}}}
    whole["properties"]["protocol"]["items"] = {"anyOf": [*layers, own]}
    whole["properties"]["case"]["items"] = {
        "type": "object",
        "required": ["label"],
        "properties": {
            "label": {"type": "string", "description": "the text for the case in legends and tables"},
            "judged": {"type": "string", "description": "the layer whose model is judged; default: the highest one"},
            "layers": {
                "type": "array",
                "items": {"anyOf": [*layers, own]},
                "description": "layers on top of the stack of the file",
            },
        },
    }
    models = whole["properties"]["churn"]["items"]
    whole["properties"]["churn"] = {"anyOf": [models, {"type": "array", "items": models}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_with_references(whole)}


def _with_references(part: Any) -> Any:
    """Return a schema in which every setting that is not text may also refer to a variable: “$epsilon”."""
    if isinstance(part, list):
        return [_with_references(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    made = {key: _with_references(value) for key, value in part.items()}
    if isinstance(made.get("properties"), dict):
        made["properties"] = {key: _or_reference(value) for key, value in made["properties"].items()}
    return made


def _or_reference(setting: Any) -> Any:
    if not isinstance(setting, dict):
        return setting
    if setting.get("type") in NOT_TEXT or "enum" in setting:
        about = {key: setting[key] for key in ("title", "description", "default") if key in setting}
        rest = {key: value for key, value in setting.items() if key not in about}
        return {"anyOf": [rest, REFERENCE]} | about
    if "anyOf" in setting and not any(one.get("type") == "string" and "enum" not in one for one in setting["anyOf"]):
        return setting | {"anyOf": [*setting["anyOf"], REFERENCE]}

    return setting
