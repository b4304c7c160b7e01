"""New protocols, learners and scenarios: small working files, each with a test that passes unchanged."""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Iterable
from importlib import util
from pathlib import Path
from string import Template

from golfsim.cli.completion import KINDS
from golfsim.core.errors import UserError, nearest
from golfsim.core.files import write_whole

TEMPLATES = Path(__file__).parent / "templates"
SCHEMA = "scenario.schema.json"
PROTOCOL_FILES = ("{}.py", "{}.toml", "test_{}.py")
SCENARIO_FILES = ("{}.toml", "test_{}.py")


def new_protocol(name: str, folder: Path, kind: str = KINDS[0]) -> list[Path]:
    """Write a protocol of a kind with its scenario and test, none of which may exist; return the files."""
    if kind not in KINDS:
        raise UserError(f"there is no kind “{kind}” of protocol", hint=nearest(kind, KINDS))
    texts = _texts(kind, PROTOCOL_FILES, name, folder)
    _check_module(name)
    _check_class(class_name(name), texts[folder / f"{name}.py"])
    return _write_all(texts, folder)


def new_learner(name: str, folder: Path, torch: bool = False) -> list[Path]:
    """Write a learner with its scenario and test, none of which may exist; return the files."""
    texts = _texts("torch" if torch else "gradient", PROTOCOL_FILES, name, folder)
    _check_module(name)
    _check_class(class_name(name), texts[folder / f"{name}.py"])
    return _write_all(texts, folder)


def new_scenario(name: str, folder: Path) -> list[Path]:
    """Write a scenario with its test, neither of which may exist; return the files."""
    return _write_all(_texts("scenario", SCENARIO_FILES, name, folder), folder)


def class_name(name: str) -> str:
    """Return the name of the class: `push_sum` becomes `PushSum`."""
    return "".join(word.capitalize() for word in name.split("_"))


def title(name: str) -> str:
    """Return the name for readers: `push_sum` becomes “Push sum”."""
    return " ".join(word for word in name.split("_") if word).capitalize()


def schema_text() -> str:
    """Return the JSON schema of scenario files as the text of a file."""
    from golfsim.scenario import catalogue

    return json.dumps(catalogue.schema(), indent=2, ensure_ascii=False) + "\n"


def _texts(template: str, forms: Iterable[str], name: str, folder: Path) -> dict[Path, str]:
    """Return the text of each file, from templates with the same forms of name; refuse names and existing files."""
    _check_name(name)
    files = {folder / form.format(name): TEMPLATES / f"{form.format(template)}.txt" for form in forms}
    _refuse_to_overwrite(files)
    words = {"name": name, "title": title(name), "Class": class_name(name)}
    return {path: Template(source.read_text(encoding="utf-8")).substitute(words) for path, source in files.items()}


def _write_all(texts: dict[Path, str], folder: Path) -> list[Path]:
    """Write the files, and the schema next to them unless it exists."""
    if not (folder / SCHEMA).exists():
        texts |= {folder / SCHEMA: schema_text()}
    for path, text in texts.items():
        _write(path, text)
    return list(texts)


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


def _check_class(name: str, text: str) -> None:
    """Refuse the name of a class if it, or that of its Config, would replace a name that the new file imports."""
    imports = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
    taken = {alias.name for node in imports for alias in node.names} & {name, f"{name}Config"}
    if taken:
        what = f"the new file would have a class “{min(taken)}”, which is also the name of a class that it imports"
        raise UserError(what, hint="choose another name")
