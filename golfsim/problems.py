"""From pydantic's errors to messages a user can act on: where, which key, what was expected, the nearest name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from golfsim.errors import UserError, nearest
from golfsim.toml_lines import Path


@dataclass(frozen=True)
class Problem:
    """Something wrong at a key of a scenario."""

    path: Path
    what: str
    hint: str = ""


class ScenarioError(UserError):
    """All that is wrong with a scenario, a line each."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages


def tuples(tree: Any) -> Any:
    """The same tree with tuples for lists: the models are frozen, and convert nothing."""
    if isinstance(tree, Mapping):
        return {key: tuples(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(tuples(value) for value in tree)
    return tree


def lists(tree: Any) -> Any:
    """The opposite of `tuples`: a tree as the parser would give it."""
    if isinstance(tree, Mapping):
        return {key: lists(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [lists(value) for value in tree]
    return tree


def explain(error: ValidationError, model: type[BaseModel], tree: Mapping[str, Any], prefix: Path = ()) -> list[Problem]:
    """One problem for each key that pydantic refuses; the branches of a union become one sentence."""
    by_path: dict[Path, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        by_path.setdefault(_path_in(tree, detail), []).append(detail)
    return [Problem(prefix + path, *_tell(details, model)) for path, details in by_path.items()]


def _path_in(tree: Any, detail: ErrorDetails) -> Path:
    """The error's place without the names that pydantic gives to branches of a union."""
    path: Path = ()
    for part in detail["loc"]:
        if isinstance(tree, Mapping) and part in tree:
            tree = tree[part]
        elif isinstance(tree, list | tuple) and isinstance(part, int) and part < len(tree):
            tree = tree[part]
        elif not (detail["type"] == "missing" and part == detail["loc"][-1]):
            continue
        path = (*path, part)
    return path


def _tell(details: list[ErrorDetails], model: type[BaseModel]) -> tuple[str, str]:
    first = details[0]
    context = first.get("ctx", {})
    match first["type"]:
        case "missing":
            return "missing", _description(model, first["loc"])
        case "extra_forbidden":
            return "unknown key", nearest(str(first["loc"][-1]), _valid_keys(model, first["loc"][:-1]))
        case "union_tag_not_found":
            return f"missing {context['discriminator']}", ""
        case "union_tag_invalid":
            valid = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
            return f"there is no kind “{context['tag']}”", nearest(context["tag"], valid)
        case "value_error":
            return first["msg"].removeprefix("Value error, "), ""
        case "layer":
            return first["msg"], ""
    return _expected(details)


def _expected(details: list[ErrorDetails]) -> tuple[str, str]:
    wanted = list(dict.fromkeys(_soften(detail["msg"]) for detail in details))
    got = details[0]["input"]
    literals = [d["ctx"]["expected"] for d in details if d["type"] == "literal_error"]
    valid = [word.strip(" '") for text in literals for word in text.replace(" or ", ",").split(",")]
    hint = nearest(got, valid) if isinstance(got, str) and literals else ""
    return f"expected {', or '.join(wanted)}; got {shown(got)}", hint if hint.startswith("did") else ""


def shown(value: Any) -> str:
    """A value as it would stand in the file, shortened."""
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _soften(message: str) -> str:
    message = message.removeprefix("Input should be ").removeprefix("Input should ")
    message = message.replace("a valid tuple", "a list").replace("a valid dictionary", "a table")
    return message.replace("a valid ", "a ").replace("a integer", "an integer").replace("a boolean", "true or false")


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models_at(model: type[BaseModel], loc: tuple[Any, ...]) -> list[type[BaseModel]]:
    models = [model]
    for part in loc:
        inner = [m for outer in models if part in _fields(outer) for m in _models_in(_fields(outer)[part].annotation)]
        tagged = [m for m in models if "kind" in m.model_fields and part in get_args(m.model_fields["kind"].annotation)]
        models = inner or tagged or models
    return models


def _valid_keys(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    return list(dict.fromkeys(key for found in _models_at(model, loc) for key in _fields(found)))


def _description(model: type[BaseModel], loc: tuple[Any, ...]) -> str:
    for found in _models_at(model, loc[:-1]):
        if loc[-1] in _fields(found):
            return _fields(found)[loc[-1]].description or ""
    return ""
