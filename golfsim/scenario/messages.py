"""Turn pydantic's errors into messages for users: place, key, expected value, and the nearest valid name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from golfsim.core.errors import UserError, closest, nearest
from golfsim.scenario.pages import GENERAL
from golfsim.scenario.toml_lines import KeyPath

EXPECTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "text of at least {min_length} character(s)",
    "string_too_long": "text of at most {max_length} character(s)",
    "too_short": "at least {min_length} value(s)",
    "too_long": "at most {max_length} value(s)",
}
FORMS = {r"^[A-Za-z_][\w-]*$": "a name of letters, digits, “_” and “-” that begins with a letter"}
LONGEST = 60  # characters of a value that a message shows


@dataclass(frozen=True)
class Problem:
    """An error at one key of a scenario."""

    path: KeyPath
    what: str
    hint: str = ""


@dataclass(frozen=True)
class Neighbours:
    """The layers around a layer: valid earlier ones, invalid earlier ones, and later ones."""

    earlier: Mapping[str, object] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()

    def of_kind(self, kind: str) -> list[str]:
        """Return the names of the earlier layers of a kind: overlay, records, learner."""
        kinds = {
            name: [c.kind() for c in type(layer).__mro__ if hasattr(c, "kind")] for name, layer in self.earlier.items()
        }
        return [name for name, known in kinds.items() if kind in known]


class ScenarioError(UserError):
    """All errors of a scenario: a list of messages, each with its place."""

    placed = True

    def __init__(self, messages: list[str], docs: str = GENERAL) -> None:
        super().__init__("\n".join(messages), docs=docs)
        self.messages = messages


def tuples(tree: Any) -> Any:
    """Return the same tree with tuples in place of lists, since the models are frozen and do not convert types."""
    if isinstance(tree, Mapping):
        return {key: tuples(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(tuples(value) for value in tree)
    return tree


def lists(tree: Any) -> Any:
    """Return the same tree with lists in place of tuples, as the TOML parser returns it."""
    if isinstance(tree, Mapping):
        return {key: lists(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [lists(value) for value in tree]
    return tree


def explain(
    error: ValidationError,
    model: type[BaseModel],
    tree: Mapping[str, Any],
    prefix: KeyPath = (),
    around: Neighbours | None = None,
) -> list[Problem]:
    """Return one problem per error; the errors of all branches of a union become one sentence."""
    by_path: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        by_path.setdefault(_path_in(tree, detail), []).append(detail)
    meant = _misspelt(by_path)
    left_out = {*meant.values(), *_enclosing(by_path)}
    found: list[Problem | None] = []
    for path, details in by_path.items():
        if path not in left_out:
            inner = details[0].get("ctx", {})
            if details[0]["type"] == "learner_settings":
                found += explain(inner["error"], inner["config"], inner["table"], path)
            else:
                found.append(_tell(path, details, model, meant.get(path), around or Neighbours()))
    return [Problem(prefix + problem.path, problem.what, problem.hint) for problem in found if problem]


def _path_in(tree: Any, detail: ErrorDetails) -> KeyPath:
    """Return the path of an error without the names that pydantic gives to the branches of a union."""
    path: KeyPath = ()
    for part in detail["loc"]:
        inside = tree if isinstance(tree, Mapping) else range(len(tree)) if isinstance(tree, tuple) else ()
        if part in inside:
            tree = tree[part]
        elif not (detail["type"] == "missing" and part == detail["loc"][-1]):
            continue
        path = (*path, part)
    return (*path, "kind") if detail["type"].startswith("union_tag") else path


def _misspelt(by_path: Mapping[KeyPath, list[ErrorDetails]]) -> dict[KeyPath, KeyPath]:
    """Return the unknown keys that resemble a missing key of the same table, with that key."""
    missing = [path for path, details in by_path.items() if details[0]["type"] == "missing"]
    found = {}
    for path, details in by_path.items():
        if details[0]["type"] == "extra_forbidden":
            beside = [str(other[-1]) for other in missing if other[:-1] == path[:-1]]
            close = closest(str(path[-1]), beside) if beside else None
            if close is not None:
                found[path] = (*path[:-1], close)
    return found


def _enclosing(paths: Iterable[KeyPath]) -> set[KeyPath]:
    """Return the paths inside whose values another branch of a union finds the error."""
    return {path[:length] for path in paths for length in range(len(path))}


def _tell(
    path: KeyPath, details: list[ErrorDetails], model: type[BaseModel], meant: KeyPath | None, around: Neighbours
) -> Problem | None:
    first = details[0]
    loc, context = first["loc"], first.get("ctx", {})
    match first["type"]:
        case "missing":
            return Problem(path, "missing", _description(model, loc))
        case "extra_forbidden":
            valid = [str(meant[-1])] if meant else _valid_keys(model, loc[:-1])
            return Problem(path, "unknown key", nearest(str(path[-1]), valid))
        case "union_tag_not_found":
            return Problem(path, "missing", "valid: " + ", ".join(_kinds(model, loc)))
        case "union_tag_invalid":
            return Problem(path, f"there is no kind “{context['tag']}”", nearest(context["tag"], _kinds(model, loc)))
        case "value_error":
            return _refused(path, first["msg"].removeprefix("Value error, "), _valid_keys(model, loc))
        case "learner":
            return Problem(path, context["what"], context["hint"])
        case "layer":
            return _reference(path, first["input"], context["kind"], around)
    return _unexpected(path, details, _description(model, loc))


def _refused(path: KeyPath, message: str, keys: list[str]) -> Problem:
    """Return the problem that a validator of a table reports; its message may begin with the key and a colon."""
    key, sign, rest = message.partition(": ")
    return Problem((*path, key), rest) if sign and key in keys else Problem(path, message)


def _reference(path: KeyPath, name: Any, kind: str, around: Neighbours) -> Problem | None:
    """Return the problem with a reference to another layer; None if errors of that layer are already reported."""
    fitting = around.of_kind(kind)
    listed = f"{kind} layers before this one: {', '.join(fitting) or 'none'}"
    if not isinstance(name, str):
        return Problem(path, f"expected the name of an earlier layer; got {shown(name)}", listed)
    if name in around.broken:
        return None
    if name in around.later:
        hint = "a layer can only use layers that are defined before it: move it up"
        return Problem(path, f"“{name}” is defined later in the file", hint)
    if name in around.earlier:
        return Problem(path, f"“{name}” is a layer of the wrong kind: expected {kind}", listed)
    if name == "raw":
        return Problem(path, "there are no raw records without [data]")
    close = closest(name, fitting)
    return Problem(path, f"there is no layer “{name}”", f"did you mean “{close}”?" if close else listed)


def _unexpected(path: KeyPath, details: list[ErrorDetails], description: str) -> Problem:
    wanted = list(dict.fromkeys(map(_expectation, details)))
    got = details[0]["input"]
    literals = [word for detail in details if detail["type"] == "literal_error" for word in _literals(detail)]
    close = closest(got, literals) if isinstance(got, str) else None
    hint = f"did you mean “{close}”?" if close else _brackets(path, wanted, got) or description
    return Problem(path, f"expected {', or '.join(wanted)}; got {shown(got)}", hint)


def _expectation(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "literal_error":
        *words, last = map(shown, _literals(detail))
        return f"{', '.join(words)} or {last}" if words else last
    if kind == "string_pattern_mismatch":
        return FORMS.get(context["pattern"], f"text of the form {context['pattern']}")
    if kind in EXPECTED:
        return EXPECTED[kind].format_map({n: f"{v:g}" if isinstance(v, float) else v for n, v in context.items()})
    return detail["msg"].removeprefix("Input should be ").removeprefix("Input should ")


def _literals(detail: ErrorDetails) -> list[str]:
    """Return the allowed values: texts have quotation marks, numbers have none."""
    expected = detail["ctx"]["expected"]
    return re.findall(r"'([^']*)'", expected) or re.split(r", | or ", expected)


def _brackets(path: KeyPath, wanted: list[str], got: Any) -> str:
    """Return a hint for a common error in TOML: one table instead of a list of tables, or the reverse."""
    if wanted == ["a list"] and isinstance(got, Mapping):
        return f"write [[{path[-1]}]] with double brackets"
    of_tables = isinstance(got, tuple) and bool(got) and isinstance(got[0], Mapping)
    return f"write [{path[-1]}] with single brackets" if wanted == ["a table"] and of_tables else ""


def shown(value: Any) -> str:
    """Return a value as it is written in a TOML file, shortened."""
    text = written(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def written(value: Any) -> str:
    """Return a value as it is written in a TOML file."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bool():
            return str(value).lower()
        case Mapping():
            return "{ " + ", ".join(f"{_key(key)} = {written(inner)}" for key, inner in value.items()) + " }"
        case list() | tuple():
            return f"[{', '.join(map(written, value))}]"
    return str(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models of the tables that a type allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in models_in(inner)]


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models_at(model: type[BaseModel], loc: tuple[Any, ...]) -> list[type[BaseModel]]:
    models = [model]
    for part in loc:
        inner = [m for outer in models if part in _fields(outer) for m in models_in(_fields(outer)[part].annotation)]
        tagged = [m for m in models if part in _kinds_of(m)]
        models = inner or tagged or models
    return models


def _kinds_of(model: type[BaseModel]) -> tuple[str, ...]:
    return get_args(model.model_fields["kind"].annotation) if "kind" in model.model_fields else ()


def _kinds(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    return [kind for found in _models_at(model, loc) for kind in _kinds_of(found)]


def _valid_keys(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    return list(dict.fromkeys(key for found in _models_at(model, loc) for key in _fields(found)))


def _description(model: type[BaseModel], loc: tuple[Any, ...]) -> str:
    """Return the description of a key; for an element of a list, that of the list."""
    while loc and isinstance(loc[-1], int):
        loc = loc[:-1]
    for cut in range(len(loc), 0, -1):
        for found in _models_at(model, loc[: cut - 1]):
            if loc[cut - 1] in _fields(found):
                return str(_fields(found)[loc[cut - 1]].description or "")
    return ""
