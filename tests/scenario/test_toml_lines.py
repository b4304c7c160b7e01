"""The line of every key: of texts that tomlkit writes, and of hand-made ones with all that TOML allows."""

import tomllib
from datetime import date
from itertools import count

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from golfsim.scenario.toml_lines import key_lines, leaves, line_of

AWKWARD = st.text(st.sampled_from("ab -_.#=[]{}'\"\\,ä\n\t"), max_size=8)
PLAIN = st.one_of(st.integers(-(10**6), 10**6), st.booleans(), st.floats(allow_nan=False), st.just(date(1979, 5, 27)))


def assert_every_leaf_stands_on_its_line(text):
    """Keys contain a number that stands nowhere else, elements of lists are such numbers: each pins one line."""
    tree = tomllib.loads(text)
    lines, rows = key_lines(text), text.split("\n")
    for path, value in leaves(tree):
        row = rows[lines[path] - 1]
        mark = str(value) if isinstance(path[-1], int) else path[-1][: path[-1].index("!")]
        assert mark in row, (path, row)


def marked(tree, number):
    """The tree with a number in each key, and numbers for the elements of lists: `17!key`."""
    if isinstance(tree, dict):
        return {f"{next(number)}!{key}": marked(value, number) for key, value in tree.items()}
    if isinstance(tree, list):
        return [marked(value, number) if isinstance(value, dict | list) else next(number) for value in tree]
    return tree


TREES = st.dictionaries(
    AWKWARD,
    st.recursive(
        AWKWARD | PLAIN,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(AWKWARD, inner, max_size=3),
        max_leaves=12,
    ),
    max_size=5,
)


@given(TREES)
def test_every_leaf_of_a_text_by_tomlkit_has_its_line(tree):
    text = tomlkit.dumps(marked(tree, count(10_000_000)))
    assert_every_leaf_stands_on_its_line(text)


STRINGS = [
    '"a # b"', "'c:\\'", '""', "''", r'"\"]\""', '"""one\n# two\n""\\""""', "'''\n] }\n'''", '""""quoted""""',
    "'''it''''", '"""\\\n   folded"""',
]  # fmt: skip
DATES = ["1979-05-27", "1979-05-27 07:32:00", "07:32:00.5"]
SCALARS = [*STRINGS, *DATES, "1_000", "-0.5e+3", "inf", "nan", "true", "0xff"]


class Writer:
    """Writes a random text: each key has a number of its own and looks different each time."""

    def __init__(self, draw):
        self.draw = draw
        self.number = count(10_000_000)

    def choice(self, *options):
        return self.draw(st.sampled_from(options))

    def key(self):
        number = next(self.number)
        return self.choice(f'"{number}!"', f"'{number}!'", f'"{number}!.#\\u00e4"')

    def dotted(self):
        return self.choice(".", " . ").join(self.key() for _ in range(self.choice(1, 1, 2, 3)))

    def value(self, depth=0):
        if depth == 3 or self.choice(True, False):
            return self.choice(*SCALARS)
        return self.choice(self.list, self.table)(depth)

    def list(self, depth):
        items = [self.value(depth + 1) for _ in range(self.choice(0, 1, 3))]
        items = [item if item[0] in "[{" else str(next(self.number)) for item in items]
        gap = self.choice(" ", "\n", "\n  # , ] comment\n  ")
        return f"[{gap}{f'{gap},{gap}'.join(items)}{self.choice('', ',') if items else ''}{gap}]"

    def table(self, depth):
        return "{ " + ", ".join(self.pair(depth + 1) for _ in range(self.choice(0, 1, 2))) + " }"

    def pair(self, depth=0):
        return f"{self.dotted()}{self.choice('=', ' = ', '= ')}{self.value(depth)}"

    def block(self):
        lines = [self.pair() + self.choice("", "  # a = 1", "\n") for _ in range(self.choice(0, 1, 3))]
        return "\n".join(lines)

    def text(self):
        parts = [self.block()]
        for _ in range(self.choice(0, 1, 3)):
            header = self.choice(f"[{self.dotted()}]", f"  [ {self.dotted()} ]  # [x]")
            parts += [header, self.block()]
        for _ in range(self.choice(0, 1, 2)):
            array = self.key()
            for _ in range(self.choice(1, 2)):
                parts += [f"[[{array}]]", self.block(), f"[{array}.{self.dotted()}]", self.block()]
                inner = f"{array}.{self.key()}"
                parts += [f"[[ {inner} ]]", self.block(), f"[[{inner}]]", self.block()]
        return self.choice("\n", "\r\n").join(["# a comment", *parts, ""])


@st.composite
def texts(draw):
    return Writer(draw).text()


@given(texts())
def test_every_leaf_of_a_hand_made_text_has_its_line(text):
    assert_every_leaf_stands_on_its_line(text)


def test_tables_and_elements_have_lines_too():
    text = 'a = [\n  1,\n  { b = 2 },\n]\n\n[[c]]\nd = """\nx\n"""\n[c.e]\n[[c]]\nd.f = 1\n'
    assert key_lines(text) == {
        ("a",): 1, ("a", 0): 2, ("a", 1): 3, ("a", 1, "b"): 3, ("c",): 6, ("c", 0): 6, ("c", 0, "d"): 7,
        ("c", 0, "e"): 10, ("c", 1): 11, ("c", 1, "d"): 12, ("c", 1, "d", "f"): 12,
    }  # fmt: skip


@pytest.mark.parametrize(("path", "line"), [(("a", "b"), 2), (("a", "missing"), 1), (("missing",), None), ((), None)])
def test_a_key_that_is_missing_has_the_line_of_the_table_around_it(path, line):
    assert line_of(key_lines("[a]\nb = 1\n"), path) == line
