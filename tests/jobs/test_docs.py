"""docs/config.md and docs/slurm.md list every key with its true default."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from jobs.run_config import RunConfig
from jobs.site_config import JobResources, Jobs, Site

DOCS = Path(__file__).resolve().parents[2] / "docs"


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        options = [field.annotation, *typing.get_args(field.annotation)]
        part = next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
        if part is Jobs:
            continue
        if part is not None:
            yield from keys(part, f"{prefix}{name}.")
        elif field.is_required():
            yield prefix + name, "required"
        else:
            default = field.get_default(call_default_factory=True)
            yield prefix + name, f"`{json.dumps(default)}`"


def documented(page: str) -> dict[str, str]:
    rows = re.findall(r"^\| `([a-z_.]+)` \| (\S+) \|", (DOCS / page).read_text(), flags=re.MULTILINE)
    assert len(dict(rows)) == len(rows), "a key is listed twice"
    return {key: _number(default) for key, default in rows}


def _number(default: str) -> str:
    bare = default.strip("`")
    return f"{float(bare):g}" if re.fullmatch(r"-?[\d.]+", bare) else default


def test_run_config() -> None:
    assert documented("config.md") == {key: _number(default) for key, default in keys(RunConfig)}


def test_site_config() -> None:
    expected = dict(keys(Site)) | dict(keys(JobResources))
    assert documented("slurm.md") == {key: _number(default) for key, default in expected.items()}
