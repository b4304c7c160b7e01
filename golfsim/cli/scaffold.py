"""New protocols and scenarios: small working files, each with a test that passes unchanged."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable
from importlib import util
from pathlib import Path
from string import Template

from golfsim.core.errors import UserError
from golfsim.core.files import write_whole

TEMPLATES = Path(__file__).parent / "templates"
SCHEMA = "scenario.schema.json"
KINDS = {
    "protocol": {
        "protocol.py.txt": "{name}.py",
        "protocol.toml.txt": "{name}.toml",
        "test_protocol.py.txt": "test_{name}.py",
    },
    "scenario": {"scenario.toml.txt": "{name}.toml", "test_scenario.py.txt": "test_{name}.py"},
}


def new(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files of a new protocol or scenario, none of which may exist, and the schema next to them."""
    files = {folder / form.format(name=name): template for template, form in KINDS[kind].items()}
    _check_name(name)
    _refuse_to_overwrite(files)
    if kind == "protocol":
        _check_module(name)
    words = {"name": name, "title": name.replace("_", " ").capitalize(), "Class": class_name(name)}
    texts = {path: Template(_text(template)).substitute(words) for path, template in files.items()}
    if not (folder / SCHEMA).exists():
        texts[folder / SCHEMA] = schema_text()
    for path, text in texts.items():
        _write(path, text)
    return list(texts)


def class_name(name: str) -> str:
    """Return the name of the class: `push_sum` becomes `PushSum`."""
    return "".join(word.capitalize() for word in name.split("_"))


def schema_text() -> str:
    """Return the JSON schema of scenario files as the text of a file."""
    from golfsim.scenario import catalogue

    return json.dumps(catalogue.schema(), indent=2, ensure_ascii=False) + "\n"


def _text(template: str) -> str:
    return (TEMPLATES / template).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        what = f"“{name}” cannot be the name of a Python file and of a layer"
        raise UserError(what, hint="use lower-case letters, digits and “_”, beginning with a letter: push_sum")
    if name.startswith("test_") or name == "conftest":
        raise UserError(
            f"pytest would take “{name}” for a test", hint="choose another name; a test is written in addition"
        )


def _refuse_to_overwrite(files: Iterable[Path]) -> None:
    there = [str(path) for path in files if path.exists()]
    if there:
        raise UserError(
            f"already exists: {', '.join(there)}", hint="choose another name, or another folder with --into"
        )


def _check_module(name: str) -> None:
    """Refuse the name of an installed module, and a name that layers of a scenario cannot have."""
    from golfsim.scenario.model import Scenario

    if name in (*Scenario.model_fields, "raw", "world", "peers"):
        raise UserError(f"“{name}” is a reserved word in scenario files", hint="choose another name")
    if util.find_spec(name) is not None:
        what = f"“{name}” is the name of an installed module, which the file would hide"
        raise UserError(what, hint="choose another name")
