"""Rule sets made from the one that ships, for tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from detect.rule_set import RULES_DIR

MARKER = """\
id: marker
family: escape
severity: {severity}
message: holds the marker
when:
  regex: {pattern}
match:
  - echo MARKER
no_match:
  - echo other
"""


def with_marker(folder: Path, *, pattern: str = "MARKER", severity: str = "block", version: str = "marked") -> Path:
    """The shipped rules, and one that blocks `MARKER` (or, with another pattern, whose example fails)."""
    shutil.copytree(RULES_DIR, folder)
    (folder / "VERSION").write_text(version + "\n")
    (folder / "marker.yaml").write_text(MARKER.format(pattern=pattern, severity=severity))
    return folder
