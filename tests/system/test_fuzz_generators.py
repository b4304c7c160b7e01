"""Any generator with any arguments and any graph file: used, or refused with one message, in bounded memory and time.

GOLFSIM_FUZZ=2000 pytest tests/system/test_fuzz_generators.py tries 2000 per test.
"""

import inspect
import io
import zipfile

import networkx as nx
import numpy as np
import pytest
from entries import ENTRIES
from entries import scenario as contract_tree
from fuzzing import NASTY, damaged, nasty, thorough
from hypothesis import given
from hypothesis import strategies as st
from limited import Limited

NUMBER = 61
GENERATORS = sorted(name for name in dir(nx) if name.endswith("_graph"))


def keys_of(name):
    try:
        return list(inspect.signature(getattr(nx, name)).parameters)
    except TypeError:  # a module
        return []


@pytest.fixture(scope="module")
def limited():
    child = Limited()
    assert child.outcome(tree_of(neighbours=4), ".") == ("fine", [])
    yield child
    child.close()


def tree_of(**layer):
    layer = {"name": "peers", "use": "static_overlay"} | layer
    return contract_tree(ENTRIES["uniform"], cycles=2, probed=False, number=NUMBER) | {"protocol": [layer]}


def assert_used_or_refused(limited, folder, **layer):
    kind, messages = limited.outcome(tree_of(**layer), folder)
    assert kind in ("fine", "refused"), "\n".join(messages)
    if kind == "refused":
        assert messages
        assert all("peers" in message and "Traceback" not in message for message in messages), messages
    return kind


SIZES = st.integers(0, 70) | st.sampled_from([NUMBER, NUMBER - 1, -1, 2**31, 10**9, 2**63, 10**30])
SHARES = st.floats(0, 1) | st.sampled_from([float("nan"), float("inf"), -0.5, 1e-300, 1e308])
VALUES = (
    SIZES
    | SHARES
    | nasty
    | st.lists(SIZES, max_size=70)
    | st.lists(st.integers(0, 5), min_size=NUMBER, max_size=NUMBER)
    | st.lists(st.lists(SIZES | SHARES, max_size=4), max_size=5)
    | st.dictionaries(st.text(max_size=3), st.sampled_from(NASTY), max_size=3)
)


@st.composite
def calls(draw):
    """The name of a generator and arguments for it, most of them with names that it knows."""
    name = draw(
        st.sampled_from(GENERATORS) | st.sampled_from(["", "Graph", "draw", "path_graph ", "_graph", "x" * 9999])
    )
    known = keys_of(name) if name in GENERATORS else []
    keys = draw(st.lists(st.sampled_from([*known, *known, "n", "seed", "unknown"]), unique=True, max_size=5))
    return name, {key: draw(VALUES) for key in keys}


@thorough(150)
@given(call=calls())
def test_any_call_of_a_generator_is_used_or_refused(limited, call, tmp_path_factory):
    name, arguments = call
    assert_used_or_refused(limited, tmp_path_factory.getbasetemp(), generator=name, arguments=arguments)


@pytest.mark.parametrize("name", GENERATORS)
def test_each_generator_is_used_or_refused_as_it_is(limited, name, tmp_path):
    assert_used_or_refused(limited, tmp_path, generator=name)


# Files


def matrix(form):
    """The arrays that scipy.sparse.save_npz writes for the matrix of a ring."""
    here = np.arange(NUMBER, dtype=np.int32)
    following = (here + 1) % NUMBER
    about = {"format": np.array(form.encode()), "shape": np.array([NUMBER, NUMBER]), "data": np.ones(NUMBER)}
    if form == "coo":
        return about | {"row": here, "col": following}
    return about | {"indptr": np.arange(NUMBER + 1, dtype=np.int32), "indices": following}


def packed(arrays, lies=()):
    """A file of arrays; a member in `lies` declares that shape instead of its own."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=True)
            if name in lies:
                head = io.BytesIO()
                about = np.lib.format.header_data_from_array_1_0(array) | {"shape": lies[name]}
                np.lib.format.write_array_header_1_0(head, about)
                content = io.BytesIO(head.getvalue() + array.tobytes())
            archive.writestr(f"{name}.npy", content.getvalue())
    return file.getvalue()


ENTRIES_OF_ARRAYS = st.sampled_from([0, 1, -1, NUMBER, NUMBER - 1, NUMBER + 1, 2**31 - 1, -(2**31), 2**40, 2**63 - 1])
TYPES = ["i1", "i4", "i8", "u8", "f4", "f8", "c16", "?", "S5", "U5", "M8[s]", "O", "V8", [("a", "i4"), ("b", "f8")]]
SHAPES = st.sampled_from(
    [(), (0,), (2**62,), (2**33,), (-1,), (10**30,), (NUMBER, 1), (1, NUMBER), (5, 5, 5), (2**31, 2**31)]
)


@st.composite
def broken_matrices(draw):
    """A saved matrix with wrong numbers, types, shapes, members or bytes."""
    arrays = matrix(draw(st.sampled_from(["csr", "csc", "coo"])))
    lies = {}
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(arrays)))
        what = draw(st.sampled_from(["number", "number", "type", "shape", "lie", "cut", "longer", "remove", "format"]))
        if what == "number" and arrays[name].size and arrays[name].dtype.kind in "iuf":
            wide = arrays[name].astype(np.int64).ravel()
            wide[draw(st.integers(0, wide.size - 1))] = draw(ENTRIES_OF_ARRAYS)
            arrays[name] = wide
        elif what == "type":
            arrays[name] = np.zeros(arrays[name].shape, draw(st.sampled_from(TYPES)))
        elif what == "shape":
            arrays[name] = arrays[name].reshape(draw(st.sampled_from([(1, -1), (-1, 1)])))
        elif what == "lie":
            lies[name] = draw(SHAPES)
        elif what == "cut":
            arrays[name] = arrays[name].ravel()[: draw(st.integers(0, NUMBER))]
        elif what == "longer":
            arrays[name] = np.repeat(arrays[name].ravel(), draw(st.integers(2, 50)))
        elif what == "remove" and len(arrays) > 1:
            del arrays[name]
        elif what == "format":
            arrays["format"] = np.array(draw(st.sampled_from(["csr", "bsr", "dia", "", b"\xff", 3, "csc", b"coo"])))
    content = packed(arrays, lies)
    return draw(damaged(content)) if draw(st.integers(0, 3)) == 0 else content


def test_what_is_broken_here_is_read_before(limited, tmp_path):
    for form in ("csr", "csc", "coo"):
        (tmp_path / "g.npz").write_bytes(packed(matrix(form)))
        assert assert_used_or_refused(limited, tmp_path, file="g.npz") == "fine"
    (tmp_path / "g.txt").write_bytes(EDGES)
    assert assert_used_or_refused(limited, tmp_path, file="g.txt") == "fine"


@thorough(250)
@given(content=broken_matrices(), directed=st.booleans())
def test_a_broken_matrix_is_used_or_refused(limited, content, directed, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    (folder / "g.npz").write_bytes(content)
    assert_used_or_refused(limited, folder, file="g.npz", directed=directed)


EDGES = b"# a ring\n" + b"".join(b"%d %d\n" % (n, (n + 1) % NUMBER) for n in range(NUMBER))


@thorough(150)
@given(content=damaged(EDGES) | st.binary(max_size=200) | st.text(max_size=100).map(str.encode), directed=st.booleans())
def test_a_broken_list_of_edges_is_used_or_refused(limited, content, directed, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    (folder / "g.txt").write_bytes(content)
    assert_used_or_refused(limited, folder, file="g.txt", directed=directed)


# One by one


@pytest.mark.parametrize("arguments", [{}, {"n": 64}])
@pytest.mark.parametrize("name", ["hypercube_graph", "sudoku_graph"])
def test_a_generator_whose_n_is_not_the_number_of_nodes_is_refused_soon(limited, name, arguments, tmp_path):
    kind, (message,) = limited.outcome(tree_of(generator=name, arguments=arguments), tmp_path)
    assert kind == "refused"
    what = f"networkx.{name} makes a graph of more than 1610 nodes, the network has 61 nodes"
    assert f"peers.arguments: {what}" in message


def test_a_generator_that_lists_more_than_memory_holds_is_refused(limited, tmp_path):
    layer = {"generator": "watts_strogatz_graph", "arguments": {"n": 2**40, "k": 4, "p": 0.1}}
    kind, (message,) = limited.outcome(tree_of(**layer), tmp_path)
    assert kind == "refused"
    assert "peers.arguments: networkx.watts_strogatz_graph needs more than 1.0 GiB of memory" in message


def test_characters_at_which_numpy_may_crash_are_refused(limited, tmp_path):
    for character in map(chr, range(0x10000, 0x110000, 0x4000)):  # some of them crash it, others in the next process
        (tmp_path / "g.txt").write_text(f"# {character} in a comment\n0 1\n{character} 2\n", encoding="utf-8")
        kind, (message,) = limited.outcome(tree_of(file="g.txt"), tmp_path)
        assert kind == "refused", message
        assert f"peers.file: {tmp_path / 'g.txt'}: expected two node numbers per line" in message


@pytest.mark.parametrize("shape", [[NUMBER] * 3, np.zeros(2, [("a", "i4"), ("b", "i4")]), [1.5, 2.5], "61", None])
def test_a_matrix_with_a_strange_shape_is_refused(limited, shape, tmp_path):
    arrays = matrix("csr") | {"shape": np.array(shape)}
    if shape is None:
        del arrays["shape"]
    (tmp_path / "g.npz").write_bytes(packed(arrays))
    assert assert_used_or_refused(limited, tmp_path, file="g.npz") == "refused"


@pytest.mark.parametrize("size", [2**62, 10**30])
def test_a_matrix_that_states_a_size_beyond_all_memory_is_refused_with_its_name(limited, size, tmp_path):
    arrays = matrix("csr") | {"indices": np.zeros(NUMBER, bool)}
    (tmp_path / "g.npz").write_bytes(packed(arrays, {"indices": (size,)}))
    kind, (message,) = limited.outcome(tree_of(file="g.npz"), tmp_path)
    assert kind == "refused"
    assert f"peers.file: {tmp_path / 'g.npz'}: not a matrix in the format of scipy.sparse" in message
