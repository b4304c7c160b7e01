"""How the pages are built: `sphinx-build -W docs site/html`. Nothing is fetched from the network."""

import re
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode, Text, math
from docutils.utils.math.latex2mathml import tex2mathml

import golfsim
from golfsim.scenario import reference
from golfsim.sim import metric_catalogue

HERE = Path(__file__).parent

project = "golfsim"
version = release = golfsim.__version__
language = "en_GB"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
myst_update_mathjax = False
html_math_renderer = "mathml"

# Notebooks have no outputs of their own: each build runs them, and a cell that fails ends the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_in_temp = True  # they write files
nb_execution_timeout = 300
nb_merge_streams = True

smartquotes = False  # quotes in code and types stay as they are
highlight_language = "none"
default_role = "code"  # docstrings mark code with single back-ticks
exclude_patterns = ["**.ipynb_checkpoints"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = False  # sections of docstrings are numpydoc's
napoleon_use_ivar = True
python_maximum_signature_line_length = 90
add_module_names = False

html_theme = "furo"
html_title = "golfsim"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False


# Formulas are written as MathML, which all current browsers show without a script, a font or a file from elsewhere.
# docutils, on which Sphinx builds, has the converter: no further package, no LaTeX and no copy of MathJax is needed.
# A formula that it cannot read fails the build.


def keep_together(app: Any, tree: Any, name: str) -> None:
    """Move a punctuation mark that follows a formula into its node: browsers would begin a line with the mark."""
    for node in list(tree.findall(math)):
        after = node.next_node(descend=False, siblings=True)
        mark = re.match(r"[.,;:)]+", after.astext()) if isinstance(after, Text) else None
        if mark:
            node["mark"] = mark[0]
            node.parent.replace(after, Text(after.astext()[mark.end() :]))


def write_inline(writer: Any, node: Any) -> None:
    """Write a formula within a line."""
    mark = node.get("mark", "")
    writer.body.append(f'<span class="formula">{tex2mathml(node.astext())}{mark}</span>')
    raise SkipNode


def write_displayed(writer: Any, node: Any) -> None:
    """Write a formula that has its own lines; a wide one scrolls instead of widening the page."""
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def escape_names(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep names such as `coef_` in docstrings from being read as links."""
    lines[:] = [re.sub(r"(?<=\w)_(?=[\s,):;+]|$)", r"\_", line) for line in lines]


def setup(app: Any) -> None:
    """Register the renderer of formulas, and write the pages that come from the code before all pages are read."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_displayed, None))
    app.connect("autodoc-process-docstring", escape_names, priority=600)  # after napoleon, which has 500
    app.connect("doctree-resolved", keep_together)
    app.connect("builder-inited", lambda app: reference.write(HERE / "scenarios.md", reference.page()))
    app.connect("builder-inited", lambda app: reference.write(HERE / "metrics.md", metric_catalogue.page()))
