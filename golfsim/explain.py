"""What there is to choose from, explained from the code itself: lists for the command line, and the JSON schema."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from golfsim import protocol, settings
from golfsim.scenario import Scenario

Entry = dict[str, Any]  # name, about, settings


def summary(thing: Any) -> str:
    """The first paragraph of a docstring."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def type_name(annotation: Any) -> str:
    """A type as a reader of scenario files would say it."""
    if get_origin(annotation) is Literal:
        return " | ".join(f'"{value}"' for value in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, protocol.Protocol):
        return f"name of a layer ({annotation.__name__.lower()})"
    arguments = [a for a in get_args(annotation) if a not in (type(None), ...) and not _is_detail(a)]
    if isinstance(get_origin(annotation), type) and issubclass(get_origin(annotation), protocol.Protocol):
        return f"name of a layer ({get_origin(annotation).__name__.lower()})"
    if get_origin(annotation) is tuple:
        return f"list of {' | '.join(dict.fromkeys(map(type_name, arguments)))}"
    if arguments and get_origin(annotation) is not dict:
        return " | ".join(dict.fromkeys(map(type_name, arguments)))
    plain = {str: "text", int: "integer", float: "number", bool: "true | false", dict: "table"}
    return plain.get(get_origin(annotation) or annotation, "table")


def _is_detail(argument: Any) -> bool:
    return not (isinstance(argument, type) or get_origin(argument) is not None)


def settings_of(model: type[BaseModel], leave_out: Iterable[str] = ()) -> list[Entry]:
    """The keys of a table: name, type, default, meaning."""
    found = []
    for name, field in model.model_fields.items():
        if name not in leave_out:
            entry = {"name": field.alias or name, "type": type_name(field.annotation), "about": field.description or ""}
            if not field.is_required() and field.default is not None and not isinstance(field.default, BaseModel):
                entry["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
            found.append(entry | {"required": field.is_required()})
    return found


def protocols() -> list[Entry]:
    """The installed protocols."""
    schedule = set(protocol.LayerConfig.model_fields)
    return [
        {"name": name, "about": summary(found), "settings": settings_of(found.Config, schedule)}
        for name, found in ((n, protocol.find(n, Path())) for n in protocol.installed())
    ]


def datasets() -> list[Entry]:
    """The data sets that have a card."""
    from golfsim.datasets import cards

    return [{"name": name, "about": card.about, "settings": []} for name, card in cards().items()]


def learners() -> list[Entry]:
    """The update rules of learning layers."""
    from golfsim.updates import LEARNERS

    return [{"name": name, "about": about, "settings": []} for name, (_, about) in LEARNERS.items()]


def kinds(annotation: Any) -> list[Entry]:
    """The tables that differ by `kind`."""
    models = [m for m in (get_args(get_args(annotation)[0]) or (annotation,)) if isinstance(m, type)]
    return [
        {
            "name": get_args(model.model_fields["kind"].annotation)[0],
            "about": summary(model),
            "settings": settings_of(model, {"kind"}),
        }
        for model in models
    ]


def tables() -> list[Entry]:
    """The tables of a scenario file, and what every layer has."""
    found = [{"name": "(top level)", "about": summary(Scenario), "settings": settings_of(Scenario)}]
    for name, model in {
        "data": settings.DataConfig,
        "nodes": settings.NodesConfig,
        "protocol": protocol.LayerConfig,
        "transport": settings.TransportConfig,
        "observe": settings.ObserveConfig,
        "stop": settings.StopConfig,
    }.items():
        found.append({"name": name, "about": summary(model), "settings": settings_of(model)})
    return found


TOPICS = {
    "protocols": protocols,
    "datasets": datasets,
    "learners": learners,
    "churn": lambda: kinds(settings.ChurnConfig),
    "splits": lambda: kinds(settings.SplitConfig),
    "settings": tables,
}


def schema() -> dict[str, Any]:
    """The JSON schema of scenario files, with the settings of every installed protocol."""
    whole = Scenario.model_json_schema(by_alias=True)
    layers = []
    for name in protocol.installed():
        one = protocol.find(name, Path()).Config.model_json_schema(by_alias=True)
        whole.setdefault("$defs", {}).update(one.pop("$defs", {}))
        one["properties"]["use"] = {"const": name, "description": one["properties"]["use"]["description"]}
        whole["$defs"][f"protocol.{name}"] = one
        layers.append({"$ref": f"#/$defs/protocol.{name}"})
    own = {"type": "object", "required": ["name", "use"], "properties": {"use": {"type": "string", "pattern": ":"}}}
    whole["properties"]["protocol"]["items"] = {"anyOf": [*layers, own]}
    churn = whole["properties"]["churn"]
    whole["properties"]["churn"] = {"anyOf": [churn["items"], {"type": "array", "items": churn["items"]}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | whole
