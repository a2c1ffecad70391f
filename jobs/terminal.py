"""Text of an agent on a person's terminal: it can do nothing there, and what matters in it is marked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

MARK = "bold black on yellow"


def visible(data: bytes) -> str:
    """Bytes as text without power over a terminal: control characters are shown as their pictures."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(_picture(char) for char in text)


def _picture(char: str) -> str:
    code = ord(char)
    if char in "\n\t":
        return char
    if code < 32:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    # C1 controls, and marks that turn the direction of text around
    unseen = 0x80 <= code < 0xA0 or 0x200B <= code <= 0x200F or 0x2028 <= code <= 0x202E or 0x2060 <= code <= 0x206F
    return f"\\u{code:04x}" if unseen else char


def marked(body: bytes, spans: Sequence[tuple[int, int]], *, limit: int = 8000) -> Text:
    """`body` with line numbers; lines with evidence have a `>` before them, and the evidence itself stands out."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    text, at = Text(), 0
    for number, line in enumerate(body[:limit].splitlines(keepends=True), 1):
        inside = [(max(s - at, 0), min(e - at, len(line))) for s, e in merged if s < at + len(line) and e > at]
        text.append(f"{'>' if inside else ' '}{number:4}  ", style="dim")
        position = 0
        for start, end in inside:
            text.append(visible(line[position:start]))
            text.append(visible(line[start:end].rstrip(b"\n")), style=MARK)
            position = end
        text.append(visible(line[position:]).rstrip("\n") + "\n")
        at += len(line)
    if len(body) > limit:
        text.append(f"      ... {len(body) - limit} more bytes\n", style="dim")
    return text
