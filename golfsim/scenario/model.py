"""Read TOML scenario files into checked, frozen models. User input is checked only here."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError

from golfsim.core import notebook
from golfsim.core.errors import UserError, nearest
from golfsim.core.paths import MISSING, scenario_file, unreadable
from golfsim.core.settings import Settings
from golfsim.core.words import counted
from golfsim.data.config import DataConfig
from golfsim.data.placement import NodesConfig
from golfsim.learning.loading import learner_named
from golfsim.network.adversaries import AdversaryConfig
from golfsim.network.churn import ChurnConfig
from golfsim.network.transport import TransportConfig
from golfsim.privacy.choice import TARGET
from golfsim.protocol.base import Protocol
from golfsim.protocol.learner import Learner
from golfsim.protocol.loading import code_file, find
from golfsim.protocol.records import RawRecords
from golfsim.scenario.messages import Neighbours, Problem, ScenarioError, explain, shown
from golfsim.scenario.source import Changes, Source
from golfsim.scenario.stop_rule import Condition
from golfsim.scenario.tables import ObserveConfig, PlotConfig, PrivacyConfig, StopConfig
from golfsim.scenario.target import with_target

if TYPE_CHECKING:
    import networkx as nx

    from golfsim.scenario.in_memory import Records

Layers = dict[str, Protocol[Any]]


class Scenario(Settings):
    """One experiment: data, nodes, protocol stack, faults and measurements."""

    name: str = Field(min_length=1, description="name of the experiment, shown in reports")
    seed: int = Field(ge=0, lt=2**53, description="seed of the first run; run r uses seed + r − 1")
    cycles: int = Field(ge=1, lt=2**31, description="number of cycles per run")
    runs: int = Field(1, ge=1, le=1_000_000, description="number of runs; each run has its own seed")
    order: Literal["fixed", "shuffled"] = Field(
        "fixed", description="nodes act in the same random order in all cycles, or in a new random order per cycle"
    )
    data: DataConfig | None = Field(None, description="the records; without this table the network has no data")
    nodes: NodesConfig = Field(NodesConfig(), description="number of nodes, and how records are placed on them")
    protocol: tuple[dict[str, Any], ...] = Field((), description="the protocol stack, lowest layer first")
    churn: tuple[ChurnConfig, ...] = Field((), description="when nodes are online: one table or several")
    transport: TransportConfig = Field(TransportConfig(), description="loss, delay and partition of messages")
    adversary: tuple[AdversaryConfig, ...] = Field((), description="nodes that do not follow the protocol")
    privacy: PrivacyConfig = Field(PrivacyConfig(), description="how the guarantees of private layers are stated")
    observe: ObserveConfig = Field(ObserveConfig(), description="what is measured, and when")
    stop: StopConfig | None = Field(None, description="a condition that ends a run early")
    plot: PlotConfig = Field(PlotConfig(), description="the plot that is drawn at the end of a run")
    sweep: dict[str, Any] = Field(
        {},
        description="lists of values by path; every combination of values is one point. The lists of a `zip` group "
        "vary together",
    )
    variables: dict[str, Any] = Field(
        {},
        description='values that other settings refer to, e.g. `epsilon = 10.0` here and `epsilon = "$epsilon"` in '
        'several layers or cases; also `"$epsilon / 2"` and `"$epsilon * 2"`. A sweep varies `variables.epsilon`',
    )
    case: tuple[dict[str, Any], ...] = Field(
        (),
        description="named variants, e.g. strategies: a `label` for plots; the values, by path, that replace those of "
        "the file; layers (`[[case.layers]]`) on top of those of the file; `judged`, the layer whose model is judged",
    )

    _source: Source = PrivateAttr()
    _layers: list[dict[str, Any]] = PrivateAttr()  # the checked settings of each layer
    _learners: tuple[str, ...] = PrivateAttr()
    _files: tuple[str, ...] = PrivateAttr()  # the names of files in all settings

    @classmethod
    def load(cls, file: str | Path, changes: Changes = (), *, allow_code: bool = False) -> Scenario:
        """Read and check a file, with changes by path: ``{"learning.learner": "logistic"}`` or ``["cycles=50"]``.

        `file` can also be the name of a scenario that comes with golfsim (`golfsim list scenarios`). Protocol files
        that the scenario names are executed if they are in its own folder; with `allow_code`, all others too.
        """
        changes = changes if isinstance(changes, Mapping) else tuple(changes)
        try:
            return cls._checked(Source.read(scenario_file(file), cls.model_fields, allow_code, changes), changes)
        except RecursionError:
            raise ScenarioError([f"{file}: lists or tables are nested too deeply"]) from None

    @classmethod
    def of(
        cls,
        tree: Mapping[str, Any],
        folder: str | Path = ".",
        *,
        data: Records | None = None,
        test_data: Records | None = None,
        label: str | None = None,
        graphs: Mapping[str, nx.Graph] | None = None,
    ) -> Scenario:
        """Check a scenario given as nested dictionaries, as `tomllib` returns them.

        The given data and graphs are stored in the cache.

        Parameters
        ----------
        tree : Mapping
            The tables and keys of the scenario.
        folder : str or Path
            The folder that relative paths of the scenario start from.
        data : DataFrame or tuple
            The records: a DataFrame, or a pair of arrays (features, labels) of shapes (records, features), (records,).
        test_data : DataFrame or tuple
            Test records of the same form; without them `test` in `[data]` states how many records are held out.
        label : str
            The label column of the DataFrame; default: the last column.
        graphs : Mapping of str to networkx.Graph
            The graphs of static overlays, by the name of the layer.
        """
        if data is not None or test_data is not None or label is not None or graphs:
            from golfsim.scenario import in_memory

            tree = in_memory.tree_with(tree, data, test_data, label, graphs or {})
        return cls._checked(Source("scenario", Path(folder).absolute(), dict(tree), {}, tuple(cls.model_fields)), ())

    def packed(self) -> str:
        """Return the scenario as JSON, for another process."""
        return self._source.packed()

    @classmethod
    def unpacked(cls, text: str) -> Scenario:
        """Return the scenario that `packed` wrote, after checking it again."""
        return cls._checked(Source.unpacked(text), ())

    def change(self, changes: Changes, where: str | None = None) -> Scenario:
        """Return a checked copy with other values at some paths; `where` names the place of the changes in errors."""
        return self._checked(self._source, changes, where)

    def in_case(self, number: int, changes: Changes, where: str | None = None) -> Scenario:
        """Return a checked copy with the layers of a case and with other values at some paths."""
        return self._checked(self._source.in_case(number), changes, where)

    @classmethod
    def _checked(cls, source: Source, changes: Changes, where: str | None = None) -> Scenario:
        source = source.changed(changes, where)
        tree = source.as_checked()
        found = source.oversized()
        try:
            scenario = cls._validated(_without(tree, found) if found else tree)
        except ValidationError as error:
            found += explain(error, cls, tree)
            scenario = cls._validated(_without(tree, found))
        scenario._source = source
        layers, more = _build(source, 0, RawRecords.stand_in() if "data" in tree else None)
        found += more
        found += _cross_checks(scenario, layers, {problem.path[0] for problem in found})
        unknown = source.wrong_references()
        if unknown:  # what the checks say about the reference itself is no help
            found = [*unknown, *(p for p in found if all(p.path[: len(u.path)] != u.path for u in unknown))]
        if found:
            raise source.complain(found)
        scenario._learners = tuple(name for name, layer in layers.items() if isinstance(layer, Learner))
        configs = [layer.config for layer in layers.values()]
        scenario._files = tuple(name for table in (scenario, *configs) for name in table.files())
        scenario._layers = [config.model_dump(mode="json", by_alias=True, exclude_none=True) for config in configs]
        return scenario

    @classmethod
    def _validated(cls, tree: Mapping[str, Any]) -> Scenario:
        return cls.model_validate(tree, by_alias=True, by_name=False)

    @property
    def folder(self) -> Path:
        """The folder that relative paths of the scenario start from."""
        return self._source.folder

    @property
    def file(self) -> str:
        """The file the scenario was read from."""
        return self._source.file

    @property
    def command(self) -> str | None:
        """The command that executes its runs, for a shell; None if the scenario was not read from a file."""
        return self._source.command

    @property
    def options(self) -> tuple[str, ...]:
        """The changes with which it was read, as values of the option --set."""
        return self._source.options

    def located(self, error: UserError) -> UserError:
        """Return an error that occurred during a run with the file and line of its key."""
        if isinstance(error, ScenarioError) or error.key is None:
            return error
        problem = Problem(self._source.resolve(error.key), error.what, error.hint or "")
        return self._source.complain([problem], error.docs)

    def stack(self, seed: int, raw: RawRecords | None) -> Layers:
        """Return the layers of a run by name, lowest first, before `setup`; `raw` holds the nodes' own records."""
        return _build(self._source, seed, raw)[0]

    def files(self) -> Iterator[str]:
        """Return the names of all files that the settings of the scenario and of its layers refer to."""
        yield from self._files if hasattr(self, "_files") else super().files()

    def code_files(self) -> list[Path]:
        """Return the user's own files that contain code of the layers."""
        uses = [use for table in self.protocol for use in (str(table["use"]), learner_named(table)) if use]
        return sorted({path for use in uses if (path := code_file(use, self.folder)) is not None})

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names of all layers, lowest first."""
        return tuple(table["name"] for table in self._layers)

    @property
    def learners(self) -> tuple[str, ...]:
        """The names of the layers with models, lowest first."""
        return self._learners

    @property
    def labels(self) -> dict[str, str]:
        """The labels of layers that have one, by the name of the layer."""
        return {table["name"]: table["label"] for table in self._layers if table.get("label")}

    @property
    def condition(self) -> Condition | None:
        """The condition of `[stop]`."""
        return Condition.parse(self.stop.when) if self.stop else None

    def __repr__(self) -> str:
        return f"<Scenario “{self.name}”: {', '.join(self._summary().values())}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return notebook.table(self.name, self._summary() | {"file": self.file})

    def _summary(self) -> dict[str, str]:
        """Return the most important settings as text."""
        data = {"data": self.data.set or self.data.file or ""} if self.data else {}
        layers = " → ".join(f"{table.get('name')} ({table.get('use')})" for table in self.protocol)
        found = {"runs": f"{counted(self.runs, 'run')} of {counted(self.cycles, 'cycle')}", "seed": f"seed {self.seed}"}
        found |= data | ({"layers": layers} if layers else {})
        found |= {"cases": counted(len(self.case), "case")} if self.case else {}
        return found | ({"sweep": f"sweep of {', '.join(self._swept())}"} if self.sweep else {})

    def _swept(self) -> Iterator[str]:
        """Return the keys that the sweep varies."""
        for key, values in self.sweep.items():
            yield from (k for group in values for k in group) if key == "zip" else [key]

    def dump(self) -> str:
        """Return the scenario as TOML with explicit defaults."""
        import tomlkit

        return tomlkit.dumps({key: value for key, value in self._spelt_out().items() if value != []})

    def essence(self) -> dict[str, Any]:
        """Return all settings, with explicit defaults, that the rows of a run depend on.

        The seed and the contents of files are not included.
        """
        tree = {key: value for key, value in self._spelt_out().items() if key not in ("name", "seed", "runs", "plot")}
        for table in tree["protocol"]:
            table.pop("label", None)
        return tree

    def _spelt_out(self) -> dict[str, Any]:
        tree = self.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"protocol", "sweep", "case", "variables"}
        )
        return tree | {"protocol": copy.deepcopy(self._layers)}


def _without(tree: Mapping[str, Any], found: list[Problem]) -> dict[str, Any]:
    """Return a valid scenario without the invalid top-level keys, so that the remaining keys can be checked."""
    broken = {problem.path[0] for problem in found}
    stand_ins = {"name": "stand-in", "seed": 0, "cycles": 1}
    return stand_ins | {key: value for key, value in tree.items() if key not in broken}


def _build(source: Source, seed: int, raw: RawRecords | None) -> tuple[Layers, list[Problem]]:
    """Return the valid layers, and the problems of the others."""
    names = source.layer_names()
    layers: Layers = {}
    found: list[Problem] = []
    for place, table in source.layer_tables().items():
        known = layers | ({"raw": raw} if raw else {})
        broken = frozenset(name for name, other in names.items() if other < place and name not in layers)
        later = frozenset(name for name, other in names.items() if other > place and name not in layers)
        layer, wrong = _layer(table, seed, source, Neighbours(known, broken, later))
        found += [Problem(("protocol", place, *problem.path), problem.what, problem.hint) for problem in wrong]
        if layer is not None:
            layers[layer.name] = layer
    return layers, found


def _layer(
    table: dict[str, Any], seed: int, source: Source, around: Neighbours
) -> tuple[Protocol[Any] | None, list[Problem]]:
    found = _name_taken(table.get("name"), around)
    try:
        protocol = _protocol(table, source)
        context = {"layers": around.earlier, "folder": source.folder, "allow_code": source.allow_code}
        tables = source.layer_tables().values()
        others = sum(other.get("epsilon") == TARGET and other.get("name") != table.get("name") for other in tables)
        table = with_target(table, protocol.Config, context, source.as_checked().get("privacy"), others)
        config = protocol.Config.model_validate(table, context=context, by_alias=True, by_name=False)
    except ValidationError as error:
        return None, found + explain(error, protocol.Config, table, around=around)
    except UserError as error:
        return None, [*found, Problem((error.key or "use",), error.what, error.hint or "")]
    return (None, found) if found else (protocol(config.name, config, seed, source.folder), [])


def _name_taken(name: Any, around: Neighbours) -> list[Problem]:
    reserved = [*Scenario.model_fields, "raw", "world"]
    if not isinstance(name, str):  # reported separately
        return []
    if name in reserved:
        return [Problem(("name",), f"“{name}” is reserved", f"a layer may not be called {', '.join(reserved)}")]
    if name in around.earlier:
        return [Problem(("name",), f"“{name}” is the name of an earlier layer", "every layer needs a unique name")]
    return []


def _protocol(table: dict[str, Any], source: Source) -> type[Protocol[Any]]:
    use = table.get("use")
    if not isinstance(use, str):
        what = "missing" if use is None else f"expected text; got {shown(use)}"
        raise UserError(what, key="use", hint='the protocol to run, e.g. use = "newscast"')
    try:
        return find(use, source.folder, source.allow_code)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"“{use}” cannot be loaded: {type(error).__name__}: {error}", key="use") from error


def _cross_checks(scenario: Scenario, layers: Layers, broken: set[str | int]) -> list[Problem]:
    """Check conditions on several keys; skip a check if one of its keys is invalid."""
    checks: list[tuple[set[str], Iterable[Problem]]] = [
        ({"data", "nodes"}, _check_nodes(scenario)),
        (set(), _check_data(scenario)),
        ({"transport"}, _check_transport(scenario, layers)),
        ({"stop"}, _check_stop(scenario, None if "protocol" in broken else layers)),
        ({"protocol"}, _check_schedules(layers)),
    ]
    return [problem for needs, problems in checks if not needs & broken for problem in problems]


def _check_nodes(scenario: Scenario) -> Iterable[Problem]:
    if scenario.data is None and scenario.nodes.number is None:
        yield Problem(("nodes", "number"), "missing: a scenario without [data] must state the number of nodes")


def _check_data(scenario: Scenario) -> Iterable[Problem]:
    from golfsim.data.loading import cards

    data = scenario._source.tree.get("data")
    data = data if isinstance(data, dict) else {}
    name = data.get("set")
    if isinstance(name, str) and name not in cards():
        yield Problem(("data", "set"), f"there is no data set “{name}”", nearest(name, cards()))
    for key in ("file", "test_file"):
        name = data.get(key)
        why = unreadable(scenario.folder / name) if isinstance(name, str) else ""
        if why == MISSING:
            hint = "the path is relative to the scenario file"
            yield Problem(("data", key), f"there is no file {shown(name)}", hint)
        elif why:
            yield Problem(("data", key), f"{shown(name)}: {why}")


def _check_transport(scenario: Scenario, layers: Layers) -> Iterable[Problem]:
    for layer in layers.values():
        for fault in sorted(scenario.transport.faults() - layer.accepts):
            what = f"“{layer.name}” ({layer.config.use}) does not support {fault} of messages"
            yield Problem(("transport", fault), what)


def _check_stop(scenario: Scenario, layers: Layers | None) -> Iterable[Problem]:
    try:
        condition = scenario.condition
    except UserError as error:
        yield Problem(("stop", "when"), error.what, error.hint or "")
        return
    valid = [*(layers or ()), *scenario._source.case_layers(), "world"]
    if condition and layers is not None and condition.layer not in valid:
        yield Problem(("stop", "when"), f"there is no layer “{condition.layer}”", nearest(condition.layer, valid))


def _check_schedules(layers: Layers) -> Iterable[Problem]:
    for place, layer in enumerate(layers.values()):
        first, until = layer.config.first, layer.config.until
        if until is not None and until < first:
            yield Problem(("protocol", place, "until"), f"expected at least {first}, the value of “first”; got {until}")
        if layer.config.times > 1 and not layer.repeats:
            what = f"“{layer.config.use}” takes one turn per cycle; got {layer.config.times}"
            hint = "a protocol of yours states that its draws belong to a turn: repeats = True in its class"
            yield Problem(("protocol", place, "times"), what, hint)
