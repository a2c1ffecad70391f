"""YAML files that people edit, read strictly: what comes in is a file and a pydantic model, what goes out is the model.

Every mistake becomes one `EctypeError` that names the key, the file and line, and what to write instead (for a misspelt
key the closest valid one). Values are never coerced: `"3"` is not a number and `yes` is not a string.
"""

from __future__ import annotations

import difflib
import json
import re
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from audit.errors import EctypeError

Model = TypeVar("Model", bound=BaseModel)
KeyPath = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads `1e-3` as a number (YAML 1.1 takes it for a string) and refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key `{key.value}` is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read(path: Path, model: type[Model]) -> Model:
    """Read `path` as `model`; raises EctypeError on anything that is not exactly what the model asks for."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise EctypeError(f"cannot read {path.name}: {reason}", where=str(path), remedy="give a YAML file") from error
    return parse(text, model, where=str(path))


def parse(text: str, model: type[Model], *, where: str) -> Model:
    """Read YAML `text` as `model`; `where` names the file in messages."""
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            data = loader.construct_document(root) if root is not None else {}
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise EctypeError(f"not valid YAML: {problem}", where=f"{where}{line}", remedy="correct that line") from error
    if not isinstance(data, dict):
        raise EctypeError(
            f"a mapping of keys was expected, not {type(data).__name__}", where=where, remedy="write `key: value` lines"
        )
    try:
        return model.model_validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        raise _explain(error, model, root, where) from error


def dump(model: BaseModel) -> str:
    """The YAML text of `model`, every value spelled out, that `parse` reads back to an equal model."""
    return yaml.safe_dump(model.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=120)


def _explain(error: ValidationError, model: type[BaseModel], root: yaml.Node | None, where: str) -> EctypeError:
    problems = error.errors(include_url=False)
    first = problems[0]
    path: KeyPath = tuple(first["loc"])
    key = ".".join(str(part) for part in path)
    place = f"{where}:{line_of(root, path)}" if root is not None else where
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "extra_forbidden":
        valid = _fields(model, path[:-1])
        near = difflib.get_close_matches(str(path[-1]), valid, n=1, cutoff=0.5)
        remedy = f"did you mean `{near[0]}`?" if near else f"valid keys here: {', '.join(valid)}"
        return EctypeError(f"unknown key `{key}`{more}", where=place, remedy=remedy)
    if first["type"] == "missing":
        return EctypeError(f"missing key `{key}`{more}", where=place, remedy=f"add `{path[-1]}:`")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        what, _, remedy = message.partition("; ")
        about = re.search(r"\b[a-z_]+(\.[a-z_]+)+\b", what)
        if about and root is not None:
            place = f"{where}:{line_of(root, tuple(about.group().split('.')))}"
        named = what if not key or key in what else f"`{key}`: {what}"
        return EctypeError(named + more, where=place, remedy=remedy or "change one of these values")
    message = (
        (message[0].lower() + message[1:]).replace("a valid dictionary or object", "keys").replace("an object", "keys")
    )
    message = re.sub(r"input should be (greater|less)", r"input should be a number \1", message)
    what = f"wrong value for `{key}`: {first['input']!r}: {message}"
    return EctypeError(what + more, where=place, remedy=message.replace("input should be", "give"))


def line_of(root: yaml.Node, path: KeyPath) -> int:
    """Line (from 1) of the deepest part of `path` that exists in the document."""
    node, line = root, root.start_mark.line
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return line + 1


def _fields(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Names of the keys that are valid at `path` below `model`."""
    current: Any = model
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel) and part in current.model_fields:
            current = _model_in(current.model_fields[str(part)].annotation)
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def _model_in(annotation: Any) -> Any:
    """The model class in an annotation such as `Part`, `Part | None`."""
    options = [annotation, *typing.get_args(annotation)]
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
