"""Change the code in one place at a time, and report the changes that no test notices (mutation tests).

The changes are those of cosmic-ray (of binary operators only the nearest replacement), the removal of each statement of
a function, and the removal of each type from an `except`. Type annotations are not changed, and a change that does not
compile is left out. The sources are changed in a copy. The tests of each change run in a separate process: first with
kernels as plain Python, then compiled where this matters. A run over all modules takes about an hour and is not part
of CI:

    pip install cosmic-ray && python tests/mutation/run.py [MODULE ...]

`survivors.md` lists the survivors with the reason why each survives. The run marks those that are listed there.
"""

import ast
import importlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from parso.python.tree import Name

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("survivors.md")
COMPILED, PLAIN = True, False
NOT_NOISE = "not (length or direction or add_up or coordinates or numbers or too_few or another_scale or of_its_scale)"
NOT_HASHES = "not (know_packages or several_processes or within_seconds or thousands)"
TESTS = {  # by module: the stages that a mutant must survive, each with arguments of pytest
    "core/rng": [
        (PLAIN, "tests/core/test_rng.py"),
        (COMPILED, "tests/core/test_rng.py -k splitmix64"),
        (COMPILED, "tests/core/test_rng.py"),
        (PLAIN, "tests/core/test_chacha.py -k 'every_function'"),
        (COMPILED, "tests/core/test_chacha.py -k 'every_function'"),
    ],
    "network/delivery": [(PLAIN, "tests/network/test_delivery.py"), (COMPILED, "tests/network/test_delivery.py")],
    "privacy/ledger": [(PLAIN, "tests/privacy/test_ledger.py"), (COMPILED, "tests/privacy/test_ledger.py")],
    "privacy/mechanisms": [(PLAIN, f"tests/privacy/test_mechanisms.py -k '{NOT_NOISE}'")],
    "sim/checkpoint": [(PLAIN, "tests/sim/test_checkpoint.py")],
    "runs/store": [
        (PLAIN, "tests/runs/test_index.py"),
        (PLAIN, f"tests/runs/test_store.py -k '{NOT_HASHES}'"),
        (PLAIN, "tests/system/test_damaged_results.py -m 'not slow'"),
    ],
}
SECONDS = 300  # for the tests of one stage; a mutant that takes longer is killed, which is reported
IMPORTED = (
    "numpy scipy.stats pandas pyarrow.parquet networkx sklearn numba rich typer email.message pydantic.main "
    "platformdirs pytest xdist.plugin pytest_cov.plugin hypothesis.strategies hypothesis.internal.conjecture.engine"
)
BINARY = {  # the nearest replacement of each operator; any other is noticed more easily
    *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Mul", "Mod_Mul"),
    *("RShift_LShift", "LShift_RShift", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr"),
}
LEFT_OUT = ("Variable", "ExceptionReplacer")  # they need arguments; and `ReplaceException` replaces more
NEVER = "StopAsyncIteration"
STATEMENTS = ("expr_stmt", "atom_expr", "raise_stmt", "return_stmt")


class RemoveStatement(Operator):
    """Replace a statement of a function by `pass`."""

    def mutation_positions(self, node):
        if node.type == "simple_stmt" and node.children[0].type in STATEMENTS and ancestor(node, "funcdef"):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        first = node.get_first_leaf()
        node.children[0] = Name("pass", first.start_pos, first.prefix)
        return node

    @classmethod
    def examples(cls):
        return ()


class ReplaceException(Operator):
    """Replace one type of an `except` by a type that is never raised."""

    def mutation_positions(self, node):
        for kind in self._kinds(node):
            yield kind.start_pos, kind.end_pos

    def mutate(self, node, index):
        kind = self._kinds(node)[index]
        first = kind.get_first_leaf()
        kind.parent.children[kind.parent.children.index(kind)] = Name(NEVER, first.start_pos, first.prefix)
        return node

    @staticmethod
    def _kinds(node):
        if node.type != "except_clause":
            return []
        kinds = node.children[1]
        return kinds.children[1].children[::2] if kinds.type == "atom" else [kinds]

    @classmethod
    def examples(cls):
        return ()


class Mutant(NamedTuple):
    line: int
    before: str
    after: str
    source: str

    @property
    def change(self):
        return f"`{self.before}` → `{self.after}`"


def ancestor(node, *types):
    while node is not None and node.type not in types:
        node = node.parent
    return node


def is_annotation(node):
    """Return whether a node is (part of) a type annotation."""
    while (parent := node.parent) is not None:
        place = next(i for i, child in enumerate(parent.children) if child is node)
        if parent.type in ("annassign", "tfpdef") and place in (1, 2) and parent.children[place - 1] == ":":
            return True
        if parent.type == "funcdef" and parent.children[place - 1] == "->":
            return True
        node = parent
    return False


def is_used(operator):
    """Return whether we use an operator of cosmic-ray, by its name: e.g. core/ReplaceBinaryOperator_Add_Sub."""
    kind, _, what = operator.removeprefix("core/").partition("_")
    if kind == "ReplaceBinaryOperator":
        return what in BINARY
    if kind == "ReplaceComparisonOperator":
        return what.startswith("Is") == what.split("_")[1].startswith("Is")  # `is` compares other things than `==`
    return not any(word in kind for word in LEFT_OUT)


def nodes_of(node):
    yield node
    for child in getattr(node, "children", ()):
        yield from nodes_of(child)


def mutants_of(source):
    """Return all changes of a source, in the order of lines."""
    operators = [get_operator(name)() for name in operator_names() if is_used(name)]
    found, seen = [], {ast.dump(ast.parse(source))}
    for operator in [*operators, ReplaceException(), RemoveStatement()]:
        places = [(node, place) for node in nodes_of(get_ast(source)) for place in operator.mutation_positions(node)]
        for occurrence, (node, ((line, _), _)) in enumerate(places):
            code = mutate_code(source, operator, occurrence)
            try:
                tree = ast.dump(ast.parse(code))
                compile(code, "", "exec")
            except SyntaxError:
                continue
            if tree not in seen and not is_annotation(node):
                seen.add(tree)
                found.append(mutant(line, source, code))
    return sorted(found)


def mutant(line, source, code):
    old, new = source.splitlines(), code.splitlines()
    if len(old) == len(new):
        line = 1 + next(i for i, (one, other) in enumerate(zip(old, new, strict=True)) if one != other)
        return Mutant(line, old[line - 1].strip(), new[line - 1].strip(), code)
    return Mutant(line, old[line - 1].strip(), "(removed)", code)


class FirstFailure:
    """A plugin of pytest: the first failing example of a test suffices, no simpler one is searched."""

    def pytest_collection(self):
        from hypothesis import Phase, settings

        settings.register_profile("mutants", settings.get_profile("golfsim"), phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutants")


def accepted(place, compiled, tests, write_bytecode=False):
    """Return whether the tests pass, in a new process that has imported everything but golfsim."""
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(quiet, stream)
        os.chdir(place)
        sys.path[:0] = [str(place), str(place / "tests")]
        os.environ.update(
            PYTHONPATH=str(place), GOLFSIM_CACHE=str(place / "cache"), NUMBA_DISABLE_JIT="01"[not compiled]
        )
        sys.dont_write_bytecode = not write_bytecode
        import numba
        import pytest

        numba.config.DISABLE_JIT = not compiled
        words = ["-x", "-n", "0", "-p", "no:cacheprovider", "--tb=no", *shlex.split(tests)]
        os._exit(int(pytest.main(words, plugins=[FirstFailure()])))
    limit, ended = time.monotonic() + SECONDS, (0, 0)
    while ended[0] == 0 and time.monotonic() < limit:
        time.sleep(0.01)
        ended = os.waitpid(child, os.WNOHANG)
    if ended[0] == 0:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(f"stopped after {SECONDS} s: {tests}", file=sys.stderr, flush=True)
    if compiled:
        shutil.rmtree(place / "cache" / "kernels", ignore_errors=True)
    return ended[0] != 0 and ended[1] == 0


def report(module, place, listed):
    """Print the mutants of a module that all tests accept, and the share of those that a test notices."""
    file = place / "golfsim" / f"{module}.py"
    source = file.read_text(encoding="utf-8")
    for stage in TESTS[module]:
        assert accepted(place, *stage, write_bytecode=True), f"{module}: the tests fail without any change"
    mutants, alive = mutants_of(source), 0
    for one in mutants:
        file.write_text(one.source, encoding="utf-8")
        if all(accepted(place, *stage) for stage in TESTS[module]):
            alive += 1
            print(f"{module}:{one.line}: {one.change}{' (listed)' if one.change in listed else ''}", flush=True)
    file.write_text(source, encoding="utf-8")
    killed = len(mutants) - alive
    print(f"{module}: {len(mutants)} mutants, {killed} killed ({killed / len(mutants):.1%})", flush=True)


def main() -> None:
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # two mutants of one second and one size would share their bytecode
    for name in IMPORTED.split():
        importlib.import_module(name)
    listed = LISTED.read_text(encoding="utf-8") if LISTED.exists() else ""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "golfsim"
        shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        for module in sys.argv[1:] or TESTS:
            report(module, place, listed)


if __name__ == "__main__":
    main()
