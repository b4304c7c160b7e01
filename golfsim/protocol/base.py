"""What a protocol is, and how a scenario's names become protocols."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, get_origin

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from golfsim.core import rng
from golfsim.core.metrics import Metric
from golfsim.core.settings import Settings
from golfsim.core.state import Stateful
from golfsim.network.mailbox import Mailbox
from golfsim.privacy.mechanisms import Guarantee

if TYPE_CHECKING:
    from golfsim.network.world import World

T = TypeVar("T")


class _Reference:
    """In the file the name of an earlier layer, in the checked model the layer itself."""

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
    """The settings that every layer has: its name, what it runs, and PeerSim's schedule."""

    name: str = Field(
        pattern=r"^[A-Za-z_][\w-]*$", description="the layer's name: other layers, `--set` and the log use it"
    )
    use: str = Field(description="a protocol (`golfsim list protocols`), or a class of yours: “my_file.py:MyProtocol”")
    first: int = Field(1, ge=1, description="the first cycle in which the layer acts")
    until: int | None = Field(None, ge=1, description="the last cycle in which the layer acts; default: the end")
    every: int = Field(1, ge=1, description="act every so many cycles")


class Audited(NamedTuple):
    """The smallest network and the fewest cycles in which a layer releases all that its guarantee is about.

    `changes` are settings under which that shows piece by piece: what the guarantee holds for, and no less.
    """

    nodes: int = 2
    records: int = 1  # of each node
    features: int = 2
    cycles: int = 2
    norm: Literal["l1", "l2"] = "l1"  # the length that records may have
    changes: dict[str, Any] = {}  # noqa: RUF012 - of a tuple, which nobody changes


C = TypeVar("C", bound=LayerConfig)


class Protocol(Stateful, Generic[C]):
    """A layer of the stack. Subclasses allocate in `setup`, initialise nodes in `start`, and act in `step`."""

    Config: ClassVar[type[LayerConfig]] = LayerConfig
    accepts: ClassVar[frozenset[str]] = frozenset()  # of loss, delay, partition: what its messages may suffer
    overlaps: ClassVar[bool] = False  # its turn uses only its own arrays, which other layers read only in their turns
    secret: ClassVar[frozenset[str]] = frozenset({"noise"})  # purposes of draws that protect somebody
    metrics: ClassVar[tuple[Metric, ...]] = ()  # what `observe` returns, and `{name}_error` for each name in `others`
    _not_state = frozenset({"name", "config"})

    def __init__(self, name: str, config: C, seed: int, folder: Path = Path()) -> None:
        self.name = name
        self.config = config
        self._seed = self._secret_seed = seed
        self._folder = folder  # where relative paths of the scenario begin

    @classmethod
    def kind(cls) -> str:
        """What messages call a layer of this class."""
        return cls.__name__.lower()

    def key(self, purpose: str) -> np.uint64:
        """The key for the draws of one purpose of this layer."""
        return rng.key(self._secret_seed if purpose in self.secret else self._seed, self.name, purpose)

    def redraw_secrets(self, seed: int) -> None:
        """From the next `setup` on let all that is secret be drawn anew, and all else be as it was."""
        self._secret_seed = seed

    def acts(self, cycle: int) -> bool:
        """Whether the layer's schedule has a turn in this cycle."""
        config = self.config
        return (
            config.first <= cycle
            and (config.until is None or cycle <= config.until)
            and (cycle - config.first) % config.every == 0
        )

    def setup(self, world: World) -> None:
        """Allocate arrays over `world.nodes`; also called before a resume."""

    def start(self, world: World, nodes: NDArray[np.int32]) -> None:
        """Give these nodes new state: they are online for the first time, or back afresh."""

    def step(self, world: World) -> None:
        """Deliver what is due, then let the nodes of `world.order` act one after the other."""

    def of_nodes(self, world: World) -> dict[str, NDArray[Any]]:
        """The arrays of its state that have a row for each node, which nobody may touch while the node is offline.

        Those of that length are taken for such; a layer that has other arrays of that length by chance says so here.
        """
        return {name: array for name, array in self.arrays().items() if array.ndim and len(array) == world.nodes}

    def under_way(self) -> int:
        """How many of its messages are under way now: those in its mailboxes."""
        return sum(mail.under_way for _, mail in self.parts(Mailbox))

    @property
    def touches_private_data(self) -> bool:
        """Whether it looks at records that nobody may see: those of any layer it names that are not published."""
        from golfsim.protocol.records import Published, Records

        named = (getattr(self.config, name) for name in type(self.config).model_fields)
        return any(isinstance(layer, Records) and not isinstance(layer, Published) for layer in named)

    def guarantee(self) -> Guarantee:
        """What this layer provably gives those whose data it uses."""
        return Guarantee(None)

    def released(self) -> NDArray[np.float64]:
        """All numbers that others have seen by now of what it made of private data; asked for after each cycle."""
        return np.empty(0)

    def audited(self) -> Audited:
        """What an audit has to run to see all that it releases."""
        return Audited()

    def observe(self, world: World) -> dict[str, float]:
        """Metrics of this layer's own, by name."""
        return {}

    def times(self) -> dict[str, float]:
        """Seconds that parts of its work took, for `run.json`: no time may stand in the log."""
        return {}
