"""What a protocol is, and how a scenario's names become protocols."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, cast, get_origin

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from golfsim.core import chacha, rng
from golfsim.core.errors import UserError
from golfsim.core.metrics import Metric
from golfsim.core.settings import Settings
from golfsim.core.state import Stateful
from golfsim.network.mailbox import Mailbox
from golfsim.privacy.mechanisms import Central, Guarantee, Pairwise

if TYPE_CHECKING:
    from golfsim.network.world import World
    from golfsim.protocol.canaries import Canaries

T = TypeVar("T")


class _Reference:
    """Resolve a layer: the name of an earlier layer in the file, the layer itself in the checked model."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        wanted = get_origin(source) or source

        def resolve(value: Any, info: ValidationInfo) -> Any:
            layers: dict[str, Protocol[Any]] = (info.context or {}).get("layers", {})
            fitting = [name for name, layer in layers.items() if isinstance(layer, wanted)]
            if isinstance(value, wanted):
                return value
            if isinstance(value, str) and value in fitting:
                return layers[value]
            kind = wanted.kind()
            known = ", ".join(f"“{name}”" for name in fitting) or "none so far"
            raise PydanticCustomError(
                "layer",
                "expected the name of an earlier layer that is a {kind} layer ({known}), got {got}",
                {"kind": kind, "known": known, "got": repr(value)},
            )

        return core_schema.with_info_plain_validator_function(
            resolve, serialization=core_schema.plain_serializer_function_ser_schema(lambda layer: layer.name)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "description": "the name of an earlier layer"}


Layer = Annotated[T, _Reference()]


class LayerConfig(Settings):
    """The settings that every layer has: its name, its protocol, and a schedule as in PeerSim."""

    name: str = Field(
        pattern=r"^[A-Za-z_][\w-]*$", description="the layer's name: other layers, `--set` and the log use it"
    )
    use: str = Field(description="a protocol (`golfsim list protocols`), or a class of yours: “my_file.py:MyProtocol”")
    label: str | None = Field(None, min_length=1, description="the text for the layer in legends and tables")
    first: int = Field(1, ge=1, description="the first cycle in which the layer acts")
    until: int | None = Field(None, ge=1, description="the last cycle in which the layer acts; default: the end")
    every: int = Field(1, ge=1, description="the number of cycles from one turn to the next")
    times: int = Field(
        1, ge=1, le=1000, description="the number of turns in each of these cycles, each with its own random numbers"
    )
    on_return_state: Literal["churn", "keep", "afresh"] = Field(
        "churn",
        description="what this layer does with the state of a node that returns: what the churn model says, keep it, "
        "or replace it by new state",
    )


class Audited(NamedTuple):
    """The smallest network and the fewest cycles in which a layer releases everything that its guarantee covers.

    `changes` are settings under which the audit sees each released piece; None removes a setting. They must not weaken
    the guarantee.
    """

    nodes: int = 2
    records: int = 1  # of each node
    features: int = 2
    cycles: int = 2
    norm: Literal["l1", "l2"] = "l1"  # the length that records may have
    changes: dict[str, Any] = {}  # noqa: RUF012 - of a tuple, which nobody changes
    effort: int = 1  # this many times more runs are needed to see half of the noise


class Disclosure(NamedTuple):
    """What a layer releases of private records, and whom the owners of the records must trust for its ε."""

    released: str = "not stated by the protocol"
    trust: str = "not stated by the protocol"


C = TypeVar("C", bound=LayerConfig)


class Protocol(Stateful, Generic[C]):
    """A layer of the stack. Subclasses allocate in `setup`, initialise nodes in `start`, and act in `step`."""

    Config: ClassVar[type[LayerConfig]] = LayerConfig
    accepts: ClassVar[frozenset[str]] = frozenset()  # the faults that its messages may have: loss, delay, partition
    seen_in_part: ClassVar[bool] = (
        False  # `evidence` can be what some nodes receive; otherwise everything released is public
    )
    repeats: ClassVar[bool] = False  # it may take several turns per cycle: all its draws belong to a turn
    overlaps: ClassVar[bool] = False  # its turn uses only its own arrays, which other layers read only in their turns
    secret: ClassVar[frozenset[str]] = frozenset({"noise"})  # purposes of draws that protect records
    metrics: ClassVar[tuple[Metric, ...]] = ()  # what `observe` returns, and `{name}_error` for each name in `others`
    _not_state = frozenset({"name", "config"})

    def __init__(self, name: str, config: C, seed: int, folder: Path = Path()) -> None:
        self.name = name
        self.config = config
        self._seed = seed
        self._secret: int | bytes = seed  # bytes: a secret that nobody can guess
        self._unrepeatable: set[str] = set()  # the purposes whose keys were made from such a secret
        self._purpose_of: dict[Any, str] = {}  # the purposes of the keys that it has asked for
        self._turn = 0  # the number of the turn within this cycle
        self._folder = folder  # where relative paths of the scenario begin
        self._canaries: Canaries | None = None  # what an audit watches

    @classmethod
    def kind(cls) -> str:
        """Return how messages refer to a layer of this class."""
        return cls.__name__.lower()

    def key(self, purpose: str) -> np.uint64:
        """Return the key for the draws of one purpose of this layer.

        In an export the key of a `secret` purpose is a `golfsim.core.chacha.SecretKey`, which all kernels and functions
        that draw accept as well.
        """
        found = self._key_of(purpose, self._turn)
        if not self._turn:
            self._purpose_of[found] = purpose
        return found

    def _key_of(self, purpose: str, turn: int) -> np.uint64:
        whole = f"{purpose}\x1fturn {turn}" if turn else purpose
        if purpose not in self.secret:
            return rng.key(self._seed, self.name, whole)
        if isinstance(self._secret, int):
            return rng.key(self._secret, self.name, whole)
        self._unrepeatable.add(purpose)
        return cast(np.uint64, chacha.secret_key(self._secret, self.name, whole))

    def keys_of_turn(self, turn: int) -> dict[Any, Any]:
        """Begin turn 0, 1, … of this cycle, and return its keys by those of turn 0; see `golfsim.protocol.turns`."""
        self._turn = turn
        return {key: self._key_of(purpose, turn) for key, purpose in self._purpose_of.items()}

    def redraw_secrets(self, secret: int | bytes) -> None:
        """Draw everything secret again from the next `setup` on; all other draws stay the same.

        An integer is another seed. Bytes are a secret of at least 128 bits, from which nobody else can draw.
        """
        self._secret = secret

    @property
    def unrepeatable(self) -> bool:
        """Whether the layer has asked for keys that were made from a secret which nobody can guess."""
        return bool(self._unrepeatable)

    def acts(self, cycle: int) -> bool:
        """Return whether the layer has a turn in this cycle, by its schedule."""
        config = self.config
        return (
            config.first <= cycle
            and (config.until is None or cycle <= config.until)
            and (cycle - config.first) % config.every == 0
        )

    def setup(self, world: World) -> None:
        """Allocate arrays over `world.nodes`; also called before a run is resumed."""

    def memory(self, world: World) -> int | None:
        """Return the bytes of the arrays that `setup` allocates and that a turn needs in addition.

        The world is not started, and records have their real shape but no content. None: not stated; then the memory of
        runs with fewer nodes is measured instead.
        """
        return None

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Give these nodes new state: they are online for the first time, or return with a reset state."""

    def step(self, world: World) -> None:
        """Deliver what is due, then let the nodes of `world.order` act one after the other."""

    def to_start(self, world: World) -> NDArray[np.int32]:
        """Return the nodes that get new state in this cycle."""
        chosen = {"churn": world.fresh, "keep": world.first, "afresh": world.came}
        return chosen[self.config.on_return_state]

    def senders(self, world: World) -> NDArray[np.int32]:
        """Return the nodes that send by themselves in this turn, in acting order; by default all online nodes."""
        return world.order

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """Return the arrays of its state with one row per node, which must not change while the node is offline.

        By default these are all arrays of that length. A layer with other arrays of that length overrides this.
        """
        return {name: array for name, array in self.arrays().items() if array.ndim and len(array) == world.nodes}

    def under_way(self) -> int:
        """Return the number of its messages that are in transit now: those in its mailboxes."""
        return sum(mail.under_way for _, mail in self.parts(Mailbox))

    @property
    def touches_private_data(self) -> bool:
        """Whether it uses private records, or what another layer computed from them and does not release.

        These are the records of a layer named in its settings that does not publish them.
        """
        from golfsim.protocol.records import Published, Records

        named = [getattr(self.config, name) for name in type(self.config).model_fields]
        raw = (isinstance(layer, Records) and not isinstance(layer, Published) for layer in named)
        return any(raw) or any(isinstance(layer, Protocol) and layer.withholds for layer in named)

    @property
    def withholds(self) -> bool:
        """Whether it computes from private records what never leaves a node. A layer that spreads it is private."""
        return False

    def guarantee(self) -> Guarantee:
        """Return what this layer provably guarantees for the records that it uses."""
        return Guarantee(None)

    def central(self) -> Central | None:
        """Return the central (ε, δ) of what was released so far, in addition to `guarantee`; None: none is proven."""
        return None

    def pairwise(self) -> Pairwise | None:
        """Return the (ε, δ) from node to node of what was sent so far, in addition to `guarantee`; None: not proven."""
        return None

    def disclosure(self) -> Disclosure:
        """Return in a few words what this layer releases, and who must be trusted; for tables of strategies."""
        return Disclosure()

    def value_width(self, second: bool) -> int:
        """Return how many numbers `values` returns per node; 0: this layer has none."""
        return 0

    def values(self, world: World, nodes: NDArray[np.int32], second: bool) -> NDArray[np.float64]:
        """Return the numbers [nodes, width] of each node whose sum or mean over all nodes other layers may compute.

        `second` asks for second moments as well, where the layer has them.
        """
        raise self.lacks("values", "states by value_width() that each node has numbers, but does not return them")

    def lacks(self, method: str, why: str) -> UserError:
        """Return the error for a class of the user's own without a method that another layer needs."""
        from golfsim.protocol.checking import where

        what = f"{where(type(self))}: {type(self).__name__} {why}"
        return UserError(what, key=self.name, hint=f"define the method {method}() in this class", docs="protocols")

    def released(self) -> NDArray[np.float64]:
        """Return all numbers computed from private data that others have seen so far; called after each cycle."""
        return np.empty(0)

    def audited(self) -> Audited:
        """Return what an audit has to run to see everything that the layer releases."""
        return Audited()

    def watch(self, canaries: Canaries) -> None:
        """Keep what `evidence` needs of these canaries; called before `setup`."""
        self._canaries = canaries

    def evidence(self) -> NDArray[np.float64] | None:
        """Return the numbers [canaries, numbers] that were released about each watched canary.

        They depend on released numbers and on what an attacker knows: everything except the noise and the content of
        the canaries. None: the layer does not state which of its released numbers belong to which record.
        """
        return None

    def observe(self, world: World) -> dict[str, float]:
        """Return the metrics of this layer, by name."""
        return {}

    def times(self) -> dict[str, float]:
        """Return the seconds that parts of its work took, for `run.json`; the log has no times."""
        return {}


def with_layers_below(layer: Protocol[Any]) -> dict[str, Protocol[Any]]:
    """Return a layer and all layers that its settings, or theirs, name."""
    found = {layer.name: layer}
    for _, value in layer.config:
        if isinstance(value, Protocol):
            found |= with_layers_below(value)
    return found
