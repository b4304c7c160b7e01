"""House rules that no linter holds: annotations, assertions, light imports, and which way imports go."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import HEAVY

pytestmark = pytest.mark.needs_jit  # reads files only: once is enough

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "golfsim").rglob("*.py"), *(ROOT / "protocols").rglob("*.py")])
TESTS = sorted(path for path in (ROOT / "tests").glob("*.py"))
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def functions(path):
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, FUNCTION)]


def is_kernel(function):
    words = [word for decorator in function.decorator_list for word in ast.walk(decorator)]
    names = {getattr(word, "id", getattr(word, "attr", "")) for word in words}
    return bool(names & {"kernel", "leaf", "inlined", "njit", "overload"})


def lacks_annotation(function):
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    bare = [a.arg for a in named if a is not None and a.annotation is None and a.arg not in ("self", "cls")]
    return bare or function.returns is None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_function_but_kernels_is_annotated(path):
    assert [f"{f.name}:{f.lineno}" for f in functions(path) if not is_kernel(f) and lacks_annotation(f)] == []


def called(function):
    """The last words of all that a function calls or uses by name."""
    names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    return names | {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}


def asserts(function):
    own = any(isinstance(node, ast.Assert) for node in ast.walk(function))
    return own or any(name == "raises" or name.startswith("assert_") for name in called(function))


def test_no_test_is_without_assertion():
    everything = [(path, function) for path in TESTS for function in functions(path)]
    asserting = {function.name for _, function in everything if asserts(function)}
    idle = [
        f"{path.name}:{function.lineno} {function.name}"
        for path, function in everything
        if function.name.startswith("test_") and not asserts(function) and not called(function) & asserting
    ]
    assert len(everything) > 100
    assert idle == []


@pytest.mark.parametrize("module", ["golfsim", "golfsim.cli"])
def test_imports_are_light(module):
    found = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    loaded = set(found.stdout.split())
    assert module in loaded
    assert loaded & HEAVY == set()


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def test_golfsim_imports_nothing_of_the_protocols():
    ours = {path: set(imported(path)) for path in SOURCES if (ROOT / "golfsim") in path.parents}
    assert any("golfsim.core.errors" in names for names in ours.values())
    assert [str(path) for path, names in ours.items() if any(n.split(".")[0] == "protocols" for n in names)] == []


# What numpy and BLAS compute by code that they choose by the processor; `golfsim.core.maths` does not.
BY_PROCESSOR = {
    "dot", "matmul", "einsum", "inner", "vdot", "tensordot", "linalg", "convolve", "correlate",
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power", "cbrt",
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh",
}  # fmt: skip
AFTERWARDS = {"bench", "report", "compare", "comparing", "audit", "auditing"}  # computed from logs, or only timed
ALLOWED = {"overlay_stats.py: rows @ graph", "correlated.py: np.linalg"}  # whole numbers; rounded up to six digits
DISTINCT = {
    "transport.py",
    "observers.py",
    "metrics.py",
    "mailbox.py",
    "preview.py",
    "overlay_stats.py",
    "votes.py",
}  # they sort distinct keys


def by_processor(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield f"{path.name}: {ast.unparse(node)}"
        name = ast.unparse(node.func if isinstance(node, ast.Call) else node) if isinstance(node, ast.expr) else ""
        if isinstance(node, ast.Attribute) and name in {f"np.{word}" for word in BY_PROCESSOR}:
            yield f"{path.name}: {name}"
        stable = isinstance(node, ast.Call) and [ast.unparse(word) for word in node.keywords] == ["kind='stable'"]
        if isinstance(node, ast.Call) and name.endswith("argsort") and not stable and path.name not in DISTINCT:
            yield f"{path.name}: {name}"


def test_no_logged_value_depends_on_code_that_a_library_chooses_by_the_processor():
    ours = [path for path in SOURCES if not AFTERWARDS & {*path.parts, path.stem}]
    assert {use for path in ours for use in by_processor(path)} == ALLOWED


def test_no_kernel_lets_the_compiler_reorder_sums():
    assert len(SOURCES) > 100
    assert [str(path) for path in SOURCES if "fastmath" in path.read_text(encoding="utf-8")] == []


def test_the_ledger_is_the_only_door_to_a_record_s_budget():
    """Only `golfsim/privacy/ledger.py` writes the visits of a ledger or of a budget in a kernel."""
    writers = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [ast.unparse(target) for target in targets if isinstance(target, ast.Subscript)]
            writers += [path.name for name in names if "ledger.visits" in name or "budget.visits" in name]
    assert set(writers) == {"ledger.py"}


def test_only_the_delivery_rule_decides_whether_a_message_arrives():
    """No other file compares a draw with the loss, or the sides of a cut, but to find contacts and pairs."""
    deciding = {
        path.name for path in SOURCES if re.search(r"< (wire\.)?loss\b|>= loss\b", path.read_text(encoding="utf-8"))
    }
    sides = {path.name for path in SOURCES if re.search(r"\bside\[.*(==|!=)", path.read_text(encoding="utf-8"))}
    assert deciding == {"delivery.py"}
    assert sides == {"delivery.py", "overlay.py", "transport.py"}


def test_a_run_loads_neither_anonml_nor_the_course_unless_it_uses_them(tmp_path):
    code = (
        "import sys, golfsim\n"
        f"scenario = golfsim.Scenario.load({str(ROOT / 'scenarios' / 'quickstart.toml')!r}, {{'cycles': 1}})\n"
        "golfsim.Simulation(scenario)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "protocols.golf" in loaded
    assert [name for name in loaded if name.startswith(("protocols.anonml", "golfsim.data.course"))] == []
