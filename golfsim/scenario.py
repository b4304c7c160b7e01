"""Scenario files: TOML → checked, frozen models. The only place where a user's input is checked."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, ValidationError

from golfsim.adversary import AdversaryConfig
from golfsim.churn import ChurnConfig
from golfsim.condition import Condition
from golfsim.errors import UserError, nearest
from golfsim.placement import NodesConfig
from golfsim.problems import Problem, ScenarioError, explain, lists, tuples
from golfsim.protocol import Protocol, find
from golfsim.records import Raw
from golfsim.settings import DataConfig, ObserveConfig, Settings, StopConfig
from golfsim.toml_lines import Path as KeyPath
from golfsim.toml_lines import key_lines, line_of
from golfsim.transport import TransportConfig

Changes = Mapping[str, Any] | Iterable[str]
Layers = dict[str, Protocol[Any]]


class Scenario(Settings):
    """One experiment: data, nodes, protocol stack, faults, and what is observed."""

    name: str = Field(min_length=1, description="what the experiment is called in reports")
    seed: int = Field(ge=0, lt=2**53, description="the seed of the first run; run r has seed + r − 1")
    cycles: int = Field(ge=1, lt=2**31, description="how many cycles a run has")
    runs: int = Field(1, ge=1, description="how many runs, each with a seed of its own")
    order: Literal["fixed", "shuffled"] = Field(
        "fixed", description="nodes act in one random order, or in a new one each cycle"
    )
    data: DataConfig | None = Field(None, description="the records; without it the network has no data")
    nodes: NodesConfig = Field(NodesConfig(), description="how many nodes, and who holds what")
    protocol: tuple[dict[str, Any], ...] = Field((), description="the stack, lowest layer first")
    churn: tuple[ChurnConfig, ...] = Field((), description="who is online when: one table or several")
    transport: TransportConfig = Field(TransportConfig(), description="loss, delay and partition of messages")
    adversary: tuple[AdversaryConfig, ...] = Field((), description="nodes that do not follow the protocol")
    observe: ObserveConfig = Field(ObserveConfig(), description="what is measured when")
    stop: StopConfig | None = Field(None, description="a condition that ends a run early")
    sweep: dict[str, Any] = Field(
        {}, description="lists of values by path, every combination a point; lists in a `zip` group vary together"
    )
    case: tuple[dict[str, Any], ...] = Field(
        (), description="named variants: a `label` for plots, and values by path that differ from the rest of the file"
    )

    _source: _Source = PrivateAttr()

    @classmethod
    def load(cls, file: str | Path, changes: Changes = ()) -> Scenario:
        """Read and check a file, with changes by path: ``{"learning.learner": "logistic"}`` or ``["cycles=50"]``."""
        path = Path(file)
        text = _read(path)
        try:
            tree = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            line = re.search(r"at line (\d+)", str(error))
            raise ScenarioError([f"{path}{':' + line[1] if line else ''}: not TOML: {error}"]) from None
        return cls._checked(_Source(str(path), path.parent, tree, key_lines(text)), changes)

    @classmethod
    def of(cls, tree: Mapping[str, Any], folder: str | Path = ".") -> Scenario:
        """Check a scenario given as nested dictionaries, as `tomllib` would read it."""
        return cls._checked(_Source("scenario", Path(folder), copy.deepcopy(dict(tree)), {}), ())

    def change(self, changes: Changes, where: str | None = None) -> Scenario:
        """A copy with other values at some paths, checked anew; `where` names the place of the changes in errors."""
        return self._checked(self._source, changes, where)

    @classmethod
    def _checked(cls, source: _Source, changes: Changes, where: str | None = None) -> Scenario:
        source = source.changed(changes, where)
        try:
            scenario = cls.model_validate(source.as_checked())
        except ValidationError as error:
            found = explain(error, cls, source.as_checked())
            found += _build(source, source.layer_tables(), 0, None)[1]
            raise source.complain(found) from None
        scenario._source = source
        layers, found = scenario._layers(scenario.seed, Raw.stand_in() if scenario.data else None)
        found += _cross_checks(scenario, layers)
        if found:
            raise source.complain(found)
        return scenario

    @property
    def folder(self) -> Path:
        """Where relative paths of the scenario begin."""
        return self._source.folder

    @property
    def file(self) -> str:
        """The file the scenario was read from."""
        return self._source.file

    def located(self, error: UserError) -> UserError:
        """An error found while running, with the file and line of its key."""
        if isinstance(error, ScenarioError) or error.key is None:
            return error
        return self._source.complain([Problem(self._source.resolve(error.key), error.what, error.hint or "")])

    def stack(self, seed: int, raw: Raw | None) -> Layers:
        """The layers of a run by name, lowest first, not yet set up; `raw` is the layer of the nodes' own records."""
        return self._layers(seed, raw)[0]

    def _layers(self, seed: int, raw: Raw | None) -> tuple[Layers, list[Problem]]:
        return _build(self._source, list(self.protocol), seed, raw)

    @property
    def condition(self) -> Condition | None:
        """The condition of `[stop]`."""
        return Condition.parse(self.stop.when) if self.stop else None

    def dump(self) -> str:
        """The scenario as TOML with every default spelt out."""
        import tomlkit

        tree = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"protocol", "sweep", "case"})
        layers = self.stack(self.seed, Raw.stand_in() if self.data else None).values()
        tree["protocol"] = [layer.config.model_dump(mode="json", by_alias=True, exclude_none=True) for layer in layers]
        return tomlkit.dumps({key: value for key, value in tree.items() if value != []})


@dataclass(frozen=True)
class _Source:
    """Where a scenario comes from: its tree, and for each key the line of the file or the change that set it."""

    file: str
    folder: Path
    tree: dict[str, Any]
    lines: dict[KeyPath, int]
    origin: dict[KeyPath, str] = field(default_factory=dict)

    def changed(self, changes: Changes, where: str | None) -> _Source:
        pairs = changes.items() if isinstance(changes, Mapping) else [_assignment(text) for text in changes]
        new = _Source(self.file, self.folder, copy.deepcopy(self.tree), self.lines, dict(self.origin))
        for key, value in pairs:
            path = new.resolve(key)
            _set(new.tree, path, lists(value), key)
            new.origin[path] = where or f"--set {key}={value}"
        return new

    def as_checked(self) -> dict[str, Any]:
        """The tree as the models want it: tuples, and a single churn table as a list of one."""
        churn = self.tree.get("churn")
        tree: dict[str, Any] = tuples(self.tree | ({"churn": [churn]} if isinstance(churn, dict) else {}))
        return tree

    def layer_tables(self) -> list[dict[str, Any]]:
        tables = self.tree.get("protocol")
        whole = isinstance(tables, list) and all(isinstance(table, dict) for table in tables)
        return [tuples(table) for table in tables] if whole and tables else []

    def resolve(self, key: str) -> KeyPath:
        """A path as a user writes it, its first word a layer's name or a top-level key, as a path into the tree."""
        first, *rest = key.split(".")
        start: KeyPath = (first,)
        if first == "sweep":
            return (first, ".".join(rest))
        for index, table in enumerate(self.layer_tables()):
            if table.get("name") == first:
                start = ("protocol", index)
        return (*start, *(int(word) if word.isdigit() else word for word in rest))

    def complain(self, found: list[Problem]) -> ScenarioError:
        ordered = sorted(dict.fromkeys(found), key=lambda problem: self._line(problem.path) or 0)
        return ScenarioError([self._message(problem) for problem in ordered])

    def _line(self, path: KeyPath) -> int | None:
        if path[:1] == ("churn",) and isinstance(self.tree.get("churn"), dict):
            path = path[:1] + path[2:]
        return line_of(self.lines, path)

    def _message(self, problem: Problem) -> str:
        changes = [text for path, text in self.origin.items() if problem.path[: len(path)] == path]
        line = self._line(problem.path)
        place = changes[-1] if changes else f"{self.file}:{line}" if line else self.file
        key = self._as_written(problem.path)
        hint = f"\n    {problem.hint}" if problem.hint else ""
        return f"{place}: {key + ': ' if key else ''}{problem.what}{hint}"

    def _as_written(self, path: KeyPath) -> str:
        if path[:1] == ("protocol",) and len(path) > 1:
            tables = self.layer_tables()
            name = tables[int(path[1])].get("name") if tables else None
            path = (name, *path[2:]) if isinstance(name, str) else path
        return ".".join(map(str, path))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None


def _assignment(text: str) -> tuple[str, Any]:
    """``path=value`` as on the command line; the value as in TOML, or a bare word."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise UserError(f"--set {text}: expected path=value, e.g. --set cycles=50")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def _set(tree: Any, path: KeyPath, value: Any, key: str) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {}) if isinstance(tree, dict) else _element(tree, step, key)
    if isinstance(tree, dict):
        tree[str(path[-1])] = value
    else:
        _element(tree, path[-1], key)
        tree[path[-1]] = value


def _element(tree: Any, step: str | int, key: str) -> Any:
    if isinstance(tree, list) and isinstance(step, int) and step < len(tree):
        return tree[step]
    raise UserError(f"--set {key}: there is no “{step}” to set")


def _build(source: _Source, tables: list[dict[str, Any]], seed: int, raw: Raw | None) -> tuple[Layers, list[Problem]]:
    layers: Layers = {}
    found: list[Problem] = []
    for index, table in enumerate(tables):
        known = layers | ({"raw": raw} if raw else {})
        try:
            layer = _layer(table, seed, source.folder, known)
            layers[layer.name] = layer
        except ValidationError as error:
            found += explain(error, _config_of(table, source.folder), table, ("protocol", index))
        except UserError as error:
            found.append(Problem(("protocol", index, error.key or "use"), error.what, error.hint or ""))
    return layers, found


def _config_of(table: dict[str, Any], folder: Path) -> type[Settings]:
    return find(table["use"], folder).Config


def _layer(table: dict[str, Any], seed: int, folder: Path, layers: Layers) -> Protocol[Any]:
    if not isinstance(table.get("use"), str):
        raise UserError("missing, or not a text", key="use", hint='the protocol to run, e.g. use = "newscast"')
    protocol = find(table["use"], folder)
    name = table.get("name")
    if isinstance(name, str) and (name in Scenario.model_fields or name == "raw" or name in layers):
        raise UserError(f"“{name}” is taken: a layer needs a name of its own that is not a top-level key", key="name")
    config = protocol.Config.model_validate(table, context={"layers": layers})
    return protocol(config.name, config, seed, folder)


def _cross_checks(scenario: Scenario, layers: Layers) -> list[Problem]:
    return [*_check_data(scenario), *_check_transport(scenario, layers), *_check_stop(scenario, layers)]


def _check_data(scenario: Scenario) -> Iterable[Problem]:
    from golfsim.datasets import cards

    data, nodes = scenario.data, scenario.nodes
    if data is None and nodes.number is None:
        yield Problem(("nodes", "number"), "missing: without [data] the number of nodes must be given")
    if data and data.set is not None and data.set not in cards():
        yield Problem(("data", "set"), f"there is no data set “{data.set}”", nearest(data.set, list(cards())))
    for key in ("file", "test_file"):
        name = getattr(data, key, None)
        if name is not None and not (scenario.folder / name).is_file():
            yield Problem(("data", key), f"there is no file {scenario.folder / name}")


def _check_transport(scenario: Scenario, layers: Layers) -> Iterable[Problem]:
    for layer in layers.values():
        for fault in sorted(scenario.transport.faults() - layer.accepts):
            yield Problem(("transport", fault), f"“{layer.name}” ({layer.config.use}) cannot have {fault} of messages")


def _check_stop(scenario: Scenario, layers: Layers) -> Iterable[Problem]:
    try:
        condition = scenario.condition
    except UserError as error:
        yield Problem(("stop", "when"), error.what, error.hint or "")
        return
    if condition and condition.layer not in layers:
        hint = nearest(condition.layer, list(layers))
        yield Problem(("stop", "when"), f"there is no layer “{condition.layer}”", hint)
