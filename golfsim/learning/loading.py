"""Find the class of a learner by the name in a scenario, and check its settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from golfsim.core.errors import UserError, nearest
from golfsim.learning.checking import check_learner
from golfsim.learning.learners.torch_modules import is_torch_module, learner_of_module
from golfsim.learning.online import LearnerConfig, OnlineLearner
from golfsim.protocol.loading import class_in_file


@cache
def installed() -> dict[str, metadata.EntryPoint]:
    """Return the learners that installed packages provide, by name."""
    found = sorted(metadata.entry_points(group="golfsim.learners"), key=lambda point: point.name)
    return {point.name: point for point in found}


def find(use: str, folder: Path = Path(), allow_code: bool = False) -> type[OnlineLearner[Any]]:
    """Return the class for a learner's `use`: an installed one, or ``file.py:Class`` next to the scenario."""
    if ":" in use:
        found: Any = class_in_file(use, folder, allow_code, OnlineLearner, "learner", is_torch_module)
        if is_torch_module(found):
            return learner_of_module(found)
        check_learner(found)
        return found  # type: ignore[no-any-return]
    if use not in installed():
        raise UserError(
            f"there is no learner “{use}”",
            key="learner",
            hint=nearest(use, list(installed())) or "golfsim list learners",
        )
    return installed()[use].load()  # type: ignore[no-any-return]


def learner_named(table: Mapping[str, Any]) -> str:
    """Return the learner that the table of a layer names; nothing if it names none."""
    given = table.get("learner")
    named = given.get("use") if isinstance(given, Mapping) else given
    return named if isinstance(named, str) else ""


def make(given: Any, folder: Path = Path(), allow_code: bool = False) -> OnlineLearner[Any]:
    """Return the learner of a setting: a name, or a table with `use` and the learner's own settings."""
    table = {"use": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("use"), str):
        raise UserError(f"expected the name of a learner, or a table with “use”; got {given!r:.60}", key="learner")
    found = find(str(table["use"]), folder, allow_code)
    own = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    try:
        return found(found.Config.model_validate(own, by_alias=True, by_name=False))
    except ValidationError as error:
        raise _Unfit(error, found.Config, own) from None


class _Unfit(Exception):
    """The settings of a learner are not valid."""

    def __init__(self, error: ValidationError, config: type[LearnerConfig], table: dict[str, Any]) -> None:
        super().__init__(str(error))
        self.error, self.config, self.table = error, config, table


class _Learns:
    """Check the setting that names a learner."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def resolve(value: Any, info: ValidationInfo) -> Any:
            if isinstance(value, OnlineLearner):
                return value
            context = info.context or {}
            try:
                return make(value, context.get("folder", Path()), context.get("allow_code", False))
            except UserError as error:
                told = {"what": error.what, "hint": error.hint or ""}
                raise PydanticCustomError("learner", "{what}", told) from None
            except _Unfit as error:
                inner: dict[str, Any] = {"error": error.error, "config": error.config, "table": error.table}
                raise PydanticCustomError("learner_settings", "the settings of the learner", inner) from None

        return core_schema.with_info_plain_validator_function(
            resolve, serialization=core_schema.plain_serializer_function_ser_schema(lambda one: one.as_setting())
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return json_schema()


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a setting that names a learner."""
    names: list[dict[str, Any]] = [{"enum": list(installed())}, {"pattern": CLASS}, {"pattern": REFERENCE}]
    tables = [_table_of(name, find(name).Config) for name in installed()]
    return {"anyOf": [*({"type": "string", **name} for name in names), *tables, _table_of_file()]}


CLASS, REFERENCE = r"\.py:[A-Za-z_]\w*$", r"^\$\w"  # a class in a file; a variable of the scenario


def _table_of(name: str, config: type[LearnerConfig]) -> dict[str, Any]:
    """Return the JSON schema of the table of an installed learner."""
    schema = config.model_json_schema(by_alias=True)
    schema["properties"]["use"] |= {"const": name}
    return schema


def _table_of_file() -> dict[str, Any]:
    """Return the JSON schema of the table of a user's learner, whose other settings are unknown."""
    return {"type": "object", "properties": {"use": {"type": "string", "pattern": CLASS}}, "required": ["use"]}


Learns = Annotated[OnlineLearner[Any], _Learns()]
"""The type of a setting that names a learner, or is a table with `use` and the learner's own settings."""
