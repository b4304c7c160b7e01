"""The language of pages, messages, help texts and docstrings: plain scientific English, see CONTRIBUTING.

A new phrase that made a reader stop belongs into `INSTEAD`, with what to write instead.
"""

import ast
import json
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_jit  # reads files only: once is enough

ROOT = Path(__file__).parents[2]

# Folders that are being rewritten: they are skipped for now.
PENDING: set[str] = set()

COUNTED = "node|peer|cycle|run|row|record|worker|second|layer|message|machine|core|aggregation"
SMALL = "of|in|at|to|for|from|per|with|after|before|is|as|and|or|that|by|on|than|has|not|within|during|into|when|if"

# Patterns of phrases, in one line of lower-case text and at borders of words, with what to write instead.
INSTEAD = {
    r"(?<![#\[])(?<!# )afresh": "again, reset, new; the value of `return` is written with quotation marks",
    r"anew": "again; made anew: recreated, compiled again",
    r"comings": "arrivals",
    r"spelt": "explicit, written in full",
    r"told|tells|to tell": "report, state, show; told apart: distinguished",
    r"hardly chance": "statistically significant",
    r"(?:give|gives|giving|given|gave) away": "reveal, leak",
    r"under way|underway": "in transit; running",
    r"so many": "this many, a number of",
    r"at the most": "at most",
    rf"(?:an?|one|two|three|four|\d+) (?!(?:{SMALL})\b)\w+ an? (?:{COUNTED})": "per node, per cycle",
    rf"(?:\d+|ns|µs|ms|seconds|bytes|[kmg]i?b|turns?|calls|records|numbers) an? (?:{COUNTED})": "per node, per cycle",
    r"(?:once|twice) an? (?:cycle|node|run|second)|times a second": "once per cycle",
    r"(?<![\d.,])(?<!= )1 (?:bytes|cycles|files|messages|nodes|points|records|rows|runs|threads|workers)": "1 run",
    r"(?:is|are|was|were) there already|(?:is|are|was|were) already there": "already exists; is already complete",
    r"to be had": "available",
    r"whoever|whosoever": "a node that, everyone who",
    r"beside|besides": "next to, with; also, in addition to",
    r"(?:the|is|are|not|made|a) whole(?! numbers?| seconds?)|wholly": "complete, all of, completely",
    r"all that": "everything that, what",
    r"alike": "equal, equally, similar",
    r"lays? out": "writes, arranges",
    r"go(?:es)? on|went on": "continue",
    r"counts? not|looks? not": "is not counted; does not …",
    r"(?:hold|holds|held|holding) (?:\w+ ){0,3}against": "compare with",
    r"keeps? (?:\w+ ){0,2}to itself": "the … never leaves the node",
    r"(?:seen|said) to be": "state what is measured or shown",
    r"what it is given": "its input",
    r"(?:is|are) asked for": "requested",
    r"in all[.,;:)]": "in total",
    r"it takes? down": "ends, switches off",
    r"thereof|therein|thereby|wherein|whereby|whence|thence|hitherto|henceforth|herein|lest|whilst|amongst|upon|albeit":
        "say it in two sentences, or with which, there, from, so far, in case, while, among, on, although",
}  # fmt: skip
HISTORY = {
    r"no longer|any ?more": "state what holds",
    r"used to be|formerly|previously|as before|until now|up to now": "state what holds",
    r"(?:first|earlier|older|previous) (?:draft|design)s?|in the (?:first|last|previous) version": "state what holds",
}

# First words of docstrings of functions that are not verbs.
NO_VERBS = {
    "a", "all", "also", "always", "an", "another", "any", "as", "at", "both", "by", "each", "every", "everybody", "few",
    "first", "for", "from", "further", "how", "if", "in", "it", "its", "last", "like", "many", "more", "most", "never",
    "next", "no", "nobody", "none", "not", "nothing", "of", "on", "one", "only", "other", "our", "several", "some",
    "that", "the", "their", "there", "these", "they", "this", "those", "three", "to", "two", "under", "until", "we",
    "what", "whatever", "when", "where", "whether", "which", "who", "whole", "whom", "whose", "why", "with", "without",
}  # fmt: skip
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
MANY_PARAMETERS = 6


def pending(path):
    return any(ROOT / folder in path.parents for folder in PENDING)


def found_in(*patterns):
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern)) if path.is_file() and not pending(path)]


PAGES = found_in("*.md", "docs/*.md", "docs/examples/*.md", "data/README.md", "reports/**/*.md")
NOTEBOOKS = found_in("docs/examples/*.ipynb")
TEMPLATES = found_in("golfsim/cli/templates/*", "golfsim/report/templates/*")
TABLES = found_in("scenarios/**/*.toml", "docs/images/*.toml", "data/*.toml", "reports/published/*.toml")
SOURCES = found_in("golfsim/**/*.py", "protocols/**/*.py")


def strings(tree):
    """Yield the line and the text of each string that has a space; “{}” stands for each value in an f-string."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            texts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(texts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def texts(path):
    """Yield the line and the text of everything in a file that people read."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from ((line, found) for line, found in strings(ast.parse(text)) if " " in found)
    elif path.suffix == ".ipynb":
        yield from (
            (1, "".join(cell["source"])) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"
        )
    else:
        yield 1, re.sub(r"^[ \t]*#", "", text, flags=re.MULTILINE) if path.suffix == ".toml" else text


def paragraphs(text):
    """Yield the number of lines before each paragraph, and the paragraph in one line, without `names` and "values"."""
    start = 0
    for part in re.split(r"(\n[ \t]*(?:\n[ \t]*)+)", text):
        if part.strip():
            yield start, re.sub(r"`[\w.]+`|\"[\w.-]+\"", "…", " ".join(part.split()))
        start += part.count("\n")


def phrases(text, table):
    """Yield what a text has of a table of phrases: its line, the phrase, and what to write instead."""
    for before, paragraph in paragraphs(text):
        for pattern, instead in table.items():
            # A border of a word; letters next to a dot, a hyphen or an underscore belong to a name.
            for found in re.finditer(rf"(?<![\w-])(?<!\w\.)(?:{pattern})(?![\w-])", paragraph, re.IGNORECASE):
                yield before, found[0], instead


def hits(path, table):
    """Return one line for each phrase of a table that a file has."""
    return "\n".join(
        f"{path.relative_to(ROOT)}:{line + before}: “{phrase}” (instead: {instead})"
        for line, text in texts(path)
        for before, phrase, instead in phrases(text, table)
    )


def files(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(ROOT)))


@files([*PAGES, *NOTEBOOKS, *TEMPLATES, *TABLES, *SOURCES])
def test_texts_have_no_phrase_that_made_readers_stop(path):
    assert hits(path, INSTEAD) == ""


@files([path for path in [*PAGES, *NOTEBOOKS, *TEMPLATES, *SOURCES] if path.name != "CHANGELOG.md"])
def test_pages_state_what_holds_and_not_how_it_came_about(path):
    assert hits(path, HISTORY) == ""


def is_property(function):
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def public_functions(tree):
    """Return the public functions of a module and the public methods of its classes, but no properties."""
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    found = [node for scope in scopes for node in ast.iter_child_nodes(scope) if isinstance(node, FUNCTION)]
    return [node for node in found if not node.name.startswith("_") and not is_property(node)]


def is_imperative(docstring):
    """Return whether the first word may be a verb in the imperative: neither “The” nor “Returns” nor “Returning”."""
    word = re.match(r"[\w’'-]*", docstring)[0].lower()
    third_person = word.endswith("s") and not word.endswith("ss")
    return not (word in NO_VERBS or third_person or (word.endswith("ing") and word != "bring"))


@files(SOURCES)
def test_docstrings_of_functions_begin_with_a_verb(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    described = [(function, ast.get_docstring(function)) for function in public_functions(tree)]
    wrong = [(f, text.splitlines()[0]) for f, text in described if text and not is_imperative(text)]
    assert [f"{f.name}:{f.lineno}: {line}" for f, line in wrong] == []


def lacks_parameters(function):
    arguments = function.args
    number = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
    section = re.search(r"^Parameters\n----------$", ast.get_docstring(function) or "", re.MULTILINE)
    return number >= MANY_PARAMETERS and section is None


# The options of a command have help texts instead.
@files([path for path in SOURCES if not path.name.endswith("_commands.py")])
def test_functions_with_many_parameters_describe_each(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    of_module = [function for function in public_functions(tree) if function in tree.body]
    assert [f"{f.name}:{f.lineno}" for f in of_module if lacks_parameters(f)] == []


def test_all_kinds_of_text_are_read():
    assert all([PAGES, NOTEBOOKS, TEMPLATES, TABLES])
    assert len(SOURCES) > 80
    assert {path.name for path in PAGES} >= {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tutorial.md"}


@pytest.mark.parametrize(
    "text",
    [
        "1 runs, 1 of them are there already",
        "comings: 21.33 nodes a cycle after the first",
        "which is hardly chance",
        "What golfsim does with what it is given",
        "Try how much a private strategy gives away at least",
        "in red, when more is seen to be spent than is stated",
        "The last one; afterwards all that it took down are up again",
        "ε_A an aggregation, ε in all, also against all other members together",
        "told apart by",
        "not private: every node keeps its model to itself",
        "it must not look at the world, which goes on",
        "golfsim run makes what is not whole",
        "that counts not",
        "So many runs are asked for",
        "a row a node",
        "an array of one\nrow a node",
        "10 000 calls a cycle",
        "ε = 50 a record",
        "1.5 GB a second",
        "Compiled code is made\n    anew.",
        "It is reset and starts afresh.",
    ],
)
def test_a_phrase_that_made_readers_stop_is_found(text):
    assert list(phrases(text, INSTEAD))


@pytest.mark.parametrize(
    "text",
    [
        "one row per node, in a cycle",
        "`messages.under_way` and messages.under_way are metrics",
        'with `return = "afresh"` its model is reset; see [afresh](glossary.md#afresh)',
        "### Afresh\n\nA value of the key `return`",
        "the ε that `besides` gives",
        "0.1 runs, 21 runs, 1 run",
        "### Published records\n\nA record is published once.",
        "whole numbers and a time of whole seconds",
    ],
)
def test_plain_sentences_and_names_pass(text):
    assert list(phrases(text, INSTEAD)) == []


@pytest.mark.parametrize(
    ("docstring", "imperative"),
    [
        ("Return the peers of each node.", True),
        ("Pass messages on.", True),
        ("Read, split and scale the records.", True),
        ("The peers of each node.", False),
        ("Returns the peers.", False),
        ("Whether a node is online.", False),
        ("Reading of a file.", False),
    ],
)
def test_the_imperative_is_recognised(docstring, imperative):
    assert is_imperative(docstring) == imperative


def test_a_function_without_its_parameters_is_found():
    code = 'def f(a, b, c, d, e, g):\n    """Add."""\n'
    section = 'def f(a, b, c, d, e, g):\n    """Add.\n\n    Parameters\n    ----------\n    a : int\n    """\n'
    assert lacks_parameters(ast.parse(code).body[0])
    assert not lacks_parameters(ast.parse(section).body[0])
