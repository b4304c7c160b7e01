"""PyTorch modules as learners: `learner = "my_net.py:Net"`, where Net is a `torch.nn.Module`.

The parameters of a module are one row of the layer's array of models. `torch.func` computes the gradients of many nodes
at once; everything else is done by golfsim. torch is imported only when a scenario names a module.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core.errors import UserError
from golfsim.learning.many import BatchedLearner, Limit, add_clipped
from golfsim.learning.online import GradientConfig, Shape
from golfsim.protocol.checking import where
from golfsim.protocol.records import Records

MANY = 16  # records per model: with more, models with convolutions are faster one after the other
FEW = 8  # records per model: with more, the gradients of single records are faster model by model
PIECE = 1024  # records of a model per call
MOST = 2**26  # bytes of gradients of single records


class TorchConfig(GradientConfig):
    """The settings of a PyTorch module."""

    epochs: int = Field(1, ge=1, description="how often a node goes over its records when it updates a model")
    batch: int | None = Field(
        None, ge=1, description="the records per update; default: one update with all records of a node"
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="further arguments of the constructor of the module"
    )


class Part(NamedTuple):
    """A parameter of a module, and its place in a model."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Net:
    """A module for one thread, with the functions of its parameters that are needed.

    A module changes while it is called with other parameters, so that two threads cannot share it.
    """

    def __init__(self, module: Any, convolutions: bool) -> None:
        torch = import_module("torch")
        self.parts = layout_of(module)
        self._train, self._score = module.train(), _copy(module).eval()
        self._convolutions = convolutions
        func, parts = torch.func, self.parts

        def loss(model: Any, x: Any, label: Any, share: Any) -> Any:
            scores = func.functional_call(self._train, split(model, parts), (x,))
            return (loss_of(scores, label) * share).sum()

        def alone(model: Any, x: Any, label: Any) -> Any:
            return loss(model, x[None], label[None], torch.ones(1))

        def of_one_model(model: Any, *records: Any) -> Any:
            with torch.enable_grad():
                leaf = model.clone().requires_grad_(True)
                return torch.autograd.grad(loss(leaf, *records), leaf)[0]

        self._of_one_model = of_one_model  # what func.grad(loss) returns, with less work around it
        self._together = func.vmap(func.grad(loss))
        self._each_of_one = func.vmap(func.grad(alone), in_dims=(None, 0, 0))
        self._each = func.vmap(func.grad(alone))
        self._call = func.functional_call

    def gradients(self, w: Any, x: Any, label: Any, share: Any, out: Any) -> None:
        """Add the weighted gradients of the records of each model."""
        for lo in range(0, x.shape[1], PIECE):
            piece = slice(lo, lo + PIECE)
            if len(w) == 1 or (self._convolutions and x.shape[1] > MANY):
                for k in range(len(w)):
                    out[k] += self._of_one_model(w[k], x[k, piece], label[k, piece], share[k, piece])
            else:
                out += self._together(w, x[:, piece], label[:, piece], share[:, piece])

    def each(self, w: Any, x: Any, label: Any) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64], slice]]:
        """Yield the gradients of single records, with the model of each, and which records of each model they are."""
        (models, records), most = x.shape[:2], max(1, MOST // (4 * w.shape[1]))
        if models * records <= most and records <= FEW:
            repeated = w.repeat_interleave(records, 0)
            found = self._each(repeated, x.reshape(models * records, -1), label.reshape(-1))
            yield found.numpy(), np.repeat(np.arange(models), records), slice(0, records)
            return
        size = min(most, PIECE)
        for lo in range(0, records, size):
            for k in range(models):
                found = self._each_of_one(w[k], x[k, lo : lo + size], label[k, lo : lo + size])
                yield found.numpy(), np.full(len(found), k), slice(lo, lo + size)

    def scores(self, model: Any, x: Any) -> Any:
        """Return the scores [records, scores] of a model."""
        return self._call(self._score, split(model, self.parts), (x,))


class TorchLearner(BatchedLearner[TorchConfig]):
    """a PyTorch module."""

    Config = TorchConfig
    module: ClassVar[Any] = None

    def __init__(self, config: TorchConfig) -> None:
        super().__init__(config)
        self._initial: dict[tuple[int, int], tuple[Part, ...]] = {}
        self._outputs: dict[tuple[int, int], int] = {}

    def fits(self, records: Records[Any], layer: str) -> None:
        """Refuse records without features and a label, and modules that cannot be used."""
        super().fits(records, layer)
        shape = Shape(records.features, records.classes, records.models)
        try:
            self._check(shape)
        except UserError as error:
            raise UserError(error.what, key=f"{layer}.learner", hint=error.hint, docs="torch") from error.__cause__

    def parameters(self, records: Shape) -> int:
        """Return the number of parameters."""
        return self._parts(records)[-1].stop

    def outputs(self, records: Shape) -> int:
        """Return the number of scores of the module."""
        key = records.features, records.classes
        if key not in self._outputs:
            with one_thread() as torch:
                scores = self._net(records)._score(torch.zeros(1, records.features))
            self._outputs[key] = int(scores.shape[-1])
        return self._outputs[key]

    def initial(self, records: Shape, key: np.uint64) -> NDArray[np.float32]:
        """Return the parameters that the constructor draws from torch's generator, seeded by the key."""
        model = np.zeros(self.shape(records), np.float32)
        parameters = dict(self._built(records, int(key)).named_parameters())
        for part in self._parts(records):
            model[0, part.start : part.stop] = parameters[part.name].detach().numpy().ravel()
        return model

    def updates(self) -> tuple[int | None, int]:
        """Return how many records an update uses, and how often a node goes over its records."""
        return self.config.batch, self.config.epochs

    def gradients(
        self,
        records: Shape,
        w: NDArray[np.float32],
        x: NDArray[np.float32],
        label: NDArray[np.int32],
        share: NDArray[np.float32],
        limit: Limit | None,
    ) -> NDArray[np.float32]:
        """Return the gradient of the loss of each model, summed over its records."""
        net, out = self._net(records), np.zeros(w.shape)
        with one_thread() as torch:
            models, inputs, labels = _tensor(torch, w), _tensor(torch, x), _tensor(torch, label.astype(np.int64))
            if limit is None:
                total = torch.zeros(models.shape)
                net.gradients(models, inputs, labels, _tensor(torch, share), total)
                return np.asarray(total.numpy())
            for found, model, piece in net.each(models, inputs, labels):
                weight = share[np.unique(model), piece].ravel()
                add_clipped(found, model, weight, limit.clip, limit.l1, out)
        return out.astype(np.float32)

    def scores_many(self, records: Shape, w: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores [records, models, scores] of records by models."""
        net, out = self._net(records), np.empty((len(x), len(w), self.outputs(records)), np.float32)
        with one_thread() as torch, torch.no_grad():
            models, inputs = _tensor(torch, w), _tensor(torch, x)
            for lo in range(0, len(x), PIECE):
                for k in range(len(w)):
                    out[lo : lo + PIECE, k] = net.scores(models[k], inputs[lo : lo + PIECE]).numpy()
        return out

    def _parts(self, records: Shape) -> tuple[Part, ...]:
        key = records.features, records.classes
        if key not in self._initial:
            self._initial[key] = layout_of(self._built(records, 0))
        return self._initial[key]

    def _net(self, records: Shape) -> Net:
        """Return the module of this thread."""
        nets: dict[tuple[int, int], Net] = _nets().setdefault(self, {})
        key = records.features, records.classes
        if key not in nets:
            module = self._built(records, 0)
            nets[key] = Net(module, any("Conv" in type(one).__name__ for one in module.modules()))
        return nets[key]

    def _built(self, records: Shape, seed: int) -> Any:
        """Return a new module, whose constructor draws from torch's generator with this seed."""
        torch, given = import_module("torch"), dict(self.config.arguments)
        known = inspect.signature(self.module).parameters
        anything = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
        for name, value in (("features", records.features), ("classes", records.classes)):
            if name in known:
                given[name] = value
        for name in given:
            if name not in known and not anything:
                what = f"{where(self.module)}: the constructor of {self.module.__name__} has no argument “{name}”"
                raise UserError(what, key="learner", hint="valid: " + ", ".join(known))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            try:
                return self.module(**given)
            except Exception as error:
                raise self._unfit(f"cannot be created: {type(error).__name__}: {error}") from error

    def _unfit(self, what: str, hint: str | None = None) -> UserError:
        return UserError(f"{where(self.module)}: {self.module.__name__} {what}", key="learner", hint=hint, docs="torch")

    def _check(self, records: Shape) -> None:
        """Refuse a module whose results are no function of its parameters and of a single record."""
        torch = import_module("torch")
        module, again = self._built(records, 1), self._built(records, 1)
        self._check_parameters(module, torch)
        if any(not torch.equal(a, b) for a, b in zip(_tensors(module), _tensors(again), strict=True)):
            raise self._unfit("draws random numbers that torch's generator does not determine", "use those of torch")
        for name, one in module.named_modules():
            if isinstance(one, torch.nn.modules.dropout._DropoutNd) and one.p > 0:
                what = f"has dropout (“{name}”), whose random numbers the seed of a scenario does not determine"
                raise self._unfit(what, "remove it, or set p = 0")
        before = [one.clone() for one in module.buffers()]
        x = torch.linspace(0, 1, 3 * records.features).reshape(3, records.features)
        with one_thread(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            scores = self._tried("cannot predict records", lambda: module.train()(x))
            self._check_scores(scores, records, torch)
            if any(not torch.equal(a, b) for a, b in zip(before, module.buffers(), strict=True)):
                what = "changes its buffers when it learns, for example the running statistics of BatchNorm"
                raise self._unfit(what, "use a layer without them, such as GroupNorm or LayerNorm")
            alone = self._tried(
                "cannot learn from a single record", lambda: torch.cat([module(one[None]) for one in x])
            )
        if not torch.allclose(scores, alone, rtol=1e-3, atol=1e-4):
            hint = "each record must have scores of its own: use GroupNorm or LayerNorm in place of BatchNorm"
            raise self._unfit("gives a record other scores if it predicts it together with others", hint)
        self._check_gradients(records, torch)

    def _check_parameters(self, module: Any, torch: Any) -> None:
        lazy = torch.nn.parameter.UninitializedParameter
        for name, one in module.named_parameters():
            if isinstance(one, lazy):
                raise self._unfit(f"has a parameter without a size (“{name}”)", "use Linear in place of LazyLinear, …")
            if one.dtype != torch.float32:
                raise self._unfit(f"has a parameter of type {one.dtype} (“{name}”)", "use torch.float32")
            if not one.requires_grad:
                raise self._unfit(
                    f"has a parameter that does not learn (“{name}”)", "use register_buffer for constants"
                )
        if not any(True for _ in module.parameters()):
            raise self._unfit("has no parameters")

    def _check_scores(self, scores: Any, records: Shape, torch: Any) -> None:
        allowed = {records.classes, records.models}
        if not torch.is_tensor(scores) or scores.dim() != 2 or len(scores) != 3 or scores.shape[1] not in allowed:
            got = f"shape {list(scores.shape)}" if torch.is_tensor(scores) else f"a {type(scores).__name__}"
            wanted = " or ".join(f"[3, {number}]" for number in sorted(allowed, reverse=True))
            what = f"returns scores of {got} for 3 records of {records.classes} classes; expected {wanted}"
            raise self._unfit(what, "return one score per record and class, before softmax")

    def _check_gradients(self, records: Shape, torch: Any) -> None:
        """Try the gradients of two models with two records each, in all ways that are used later."""
        w = np.repeat(self.initial(records, np.uint64(1)), 2, axis=0)[:, : self.parameters(records)]
        x = np.linspace(0, 1, 4 * records.features, dtype=np.float32).reshape(2, 2, records.features)
        label, share = np.zeros((2, 2), np.int32), np.full((2, 2), 0.5, np.float32)

        def learn() -> None:
            for limit in (None, Limit(1.0, False)):
                self.gradients(records, w, x, label, share, limit)

        with torch.random.fork_rng(devices=[]):
            self._tried("cannot be used for many nodes at once by torch.func", learn)

    def _tried(self, what: str, run: Any) -> Any:
        try:
            return run()
        except Exception as error:
            reason = next(iter(str(error).splitlines()), "")
            hint = "draw no random numbers in forward" if "random" in reason else None
            raise self._unfit(f"{what}: {type(error).__name__}: {reason:.300}", hint) from error


def is_torch_module(cls: type[Any]) -> bool:
    """Return whether a class is a PyTorch module; without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(cls, torch.nn.Module)


@cache
def learner_of_module(module: type[Any]) -> type[TorchLearner]:
    """Return the learner of a module. For kernels all of these are one learner, so that they are compiled once."""
    if module.__module__.partition(".")[0] == "torch":
        what = f"“{module.__name__}” is a class of PyTorch itself"
        raise UserError(what, key="learner", hint="write a subclass of torch.nn.Module", docs="torch")
    members = {"module": module, "__module__": __name__, "__qualname__": TorchLearner.__qualname__}
    made: type[TorchLearner] = type(module.__name__, (TorchLearner,), members)
    return made


def layout_of(module: Any) -> tuple[Part, ...]:
    """Return the place of each parameter in a model: one after the other, as torch lists them."""
    parts, start = [], 0
    for name, one in module.named_parameters():
        parts.append(Part(name, tuple(one.shape), start, start + one.numel()))
        start += one.numel()
    return tuple(parts)


def split(model: Any, parts: tuple[Part, ...]) -> dict[str, Any]:
    """Return the parameters of a model by name, as views of its row."""
    return {part.name: model[part.start : part.stop].view(part.shape) for part in parts}


def loss_of(scores: Any, label: Any) -> Any:
    """Return the loss of each record: logistic with one score, else the cross-entropy of softmax."""
    functional = import_module("torch.nn.functional")
    if scores.shape[-1] == 1:
        target = (label == 1).to(scores.dtype)
        return functional.binary_cross_entropy_with_logits(scores[:, 0], target, reduction="none")
    return functional.cross_entropy(scores, label, reduction="none")


class _Threads:
    """How many calls are running, and how many threads torch had before the first of them."""

    lock = threading.Lock()
    running = 0
    before = 1


@contextmanager
def one_thread() -> Iterator[Any]:
    """Let torch use one thread, since the order of its sums depends on their number; yield torch."""
    torch = import_module("torch")
    with _Threads.lock:
        if _Threads.running == 0:
            _Threads.before = torch.get_num_threads()
        _Threads.running += 1
        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)
    try:
        yield torch
    finally:
        with _Threads.lock:
            _Threads.running -= 1
            if _Threads.running == 0 and _Threads.before != 1:
                torch.set_num_threads(_Threads.before)


_LOCAL = threading.local()


def _nets() -> WeakKeyDictionary[TorchLearner, dict[tuple[int, int], Net]]:
    if not hasattr(_LOCAL, "nets"):
        _LOCAL.nets = WeakKeyDictionary()
    return _LOCAL.nets  # type: ignore[no-any-return]


def _tensor(torch: Any, array: NDArray[Any]) -> Any:
    """Return a copy where torch places its own arrays: the last bits of a product depend on where a matrix begins."""
    return torch.from_numpy(np.ascontiguousarray(array)).clone()


def _tensors(module: Any) -> list[Any]:
    return [*module.parameters(), *module.buffers()]


def _copy(module: Any) -> Any:
    from copy import deepcopy

    return deepcopy(module)
