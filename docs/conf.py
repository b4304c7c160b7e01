"""How the pages are built: `sphinx-build -W docs site/html`. Nothing is fetched from the network."""

from pathlib import Path
from typing import Any

import golfsim
from golfsim.scenario import reference
from golfsim.sim import metric_catalogue

HERE = Path(__file__).parent

project = "golfsim"
version = release = golfsim.__version__
language = "en_GB"

extensions = ["myst_nb", "sphinx.ext.autodoc"]
myst_heading_anchors = 3

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
python_maximum_signature_line_length = 90
add_module_names = False

html_theme = "furo"
html_title = "golfsim"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False


def setup(app: Any) -> None:
    """Write the pages that come from the code before all pages are read."""
    app.connect("builder-inited", lambda app: reference.write(HERE / "scenarios.md", reference.page()))
    app.connect("builder-inited", lambda app: reference.write(HERE / "metrics.md", metric_catalogue.page()))
