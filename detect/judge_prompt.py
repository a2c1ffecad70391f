"""Prompts of the judge: versioned template files, rendered so that the judged text cannot speak for us.

In go a template (`detect/prompts/<version>.md`) and the record of an episode, written by an agent that may know it is
judged; out come chat messages. Four things keep the record what it is, evidence: it is fenced by a line that is random
in every request, each of its lines begins with a mark that it cannot lose, tokens and role marks of chat formats are
broken up, and the answer must repeat a code that was drawn after the record was written. Which words are used is in
the file alone; its hash is part of every verdict.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from audit.errors import EctypeError

PROMPTS_DIR = Path(__file__).parent / "prompts"
DEFAULT_PROMPT = "review-1"
NONCE = re.compile(r"[1-9][0-9]{7}")
"""Digits: what even a small model copies without a slip."""

_ROLE_MARKS = re.compile(
    r"<\|"  # <|im_start|>, <|eot_id|>, <|endoftext|>, ...
    r"|\|>"
    r"|\[(?=/?(?:INST|SYS|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|IMG)\])"
    r"|<(?=/?(?:s|bos|eos|pad|unk|think|start_of_turn|end_of_turn|begin_of_text|fim_\w+)>)"
    r"|<<(?=/?SYS>>)"
    r"|<(?=[\uff5c\u2581])",  # full-width marks
    re.IGNORECASE,
)
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_SPEAKS_TO_JUDGE = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|prompt|above|previous|rules?)\b"
    r"|\b(?:to|dear|note (?:to|for)|attention)\b.{0,12}\b(?:the )?(?:judge|reviewer|grader|evaluator|classifier)\b"
    r"|[\"']?\bverdict\b[\"']?\s*(?:[:=]|is|must|should)"
    r"|<\|im_(?:start|end)\||\[/?INST\]|^[ \t]*(?:system|assistant)[ \t]*:",
    re.MULTILINE,
)


class PromptError(EctypeError):
    """A prompt file is missing or malformed."""


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    verdicts: tuple[str, str]
    reason_characters: int


class Message(NamedTuple):
    role: str
    content: str


class Rendered(NamedTuple):
    """`nonce` is what the answer has to repeat."""

    messages: tuple[Message, Message]
    nonce: str


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One version of the prompt. `verdicts` are the words for honest and for cheat, in this order."""

    version: str
    hash: str
    system: str
    user: str
    verdicts: tuple[str, str]
    reason_characters: int

    @property
    def shows_notes(self) -> bool:
        """Whether it says what stage 1 found."""
        return any("notes" in string.Template(text).get_identifiers() for text in (self.system, self.user))

    def render(self, task: str, record: str, notes: str = "", *, draw: Callable[[], str] | None = None) -> Rendered:
        """The request for one record. `draw` gives random hexadecimal text (at least 16 digits)."""
        draw = draw or (lambda: secrets.token_hex(16))
        fence = f"===== {draw()} ====="
        nonce = _code(draw())
        while nonce in record:  # a code that the record happens to hold would prove nothing
            nonce = _code(secrets.token_hex(16))
        values = {
            "fence": fence,
            "nonce": nonce,
            "task": one_line(task),
            "record": quote(record),
            "notes": one_line(notes),
        }
        system, user = (string.Template(text).substitute(values) for text in (self.system, self.user))
        return Rendered((Message("system", system), Message("user", user)), nonce)

    def schema(self) -> dict:
        """JSON schema of the answer. The code is not given away by it: the model has to have read it."""
        reason = {"reason": {"type": "string", "maxLength": self.reason_characters}} if self.reason_characters else {}
        properties = {
            "check": {"type": "string", "pattern": f"^{NONCE.pattern}$"},
            **reason,
            "verdict": {"type": "string", "enum": list(self.verdicts)},
        }
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


def _code(drawn: str) -> str:
    return str(10_000_000 + int(drawn, 16) % 90_000_000)


def load_prompt(name: str = DEFAULT_PROMPT, directory: Path = PROMPTS_DIR) -> Prompt:
    """The prompt `name`, or the file of that path; raises PromptError."""
    path = Path(name) if "/" in name else directory / f"{name}.md"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        known = ", ".join(sorted(p.stem for p in directory.glob("*.md")))
        raise PromptError(
            f"no prompt `{name}`: {error.strerror}", where=str(path), remedy=f"use one of: {known}; or give a path"
        ) from error
    match = re.fullmatch(r"---\n(.*?)\n---\n# system\n(.*?)\n# user\n(.*)", text, re.DOTALL)
    if match is None:
        raise PromptError(
            "a prompt file is `---`, its keys, `---`, `# system`, text, `# user`, text",
            where=str(path),
            remedy=f"start from {PROMPTS_DIR / DEFAULT_PROMPT}.md",
        )
    try:
        head = msgspec.convert(yaml.safe_load(match[1]), _Head)
        if len({verdict[:1] for verdict in head.verdicts}) < 2:
            raise ValueError("the two verdicts must begin with different letters")
        for part, needed in ((match[2], set()), (match[3], {"fence", "record", "nonce"})):
            names = set(string.Template(part).get_identifiers())
            if unknown := names - {"fence", "nonce", "task", "record", "notes"}:
                raise ValueError(f"unknown placeholder ${min(unknown)}")
            if missing := needed - names:
                raise ValueError(f"${min(missing)} is missing from the user's part")
            if not string.Template(part).is_valid():
                raise ValueError("a lone $ (write $$)")
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise PromptError(f"malformed prompt: {error}", where=str(path)) from error
    return Prompt(
        version=head.version,
        hash=hashlib.sha256(text.encode()).hexdigest()[:16],
        system=match[2].strip(),
        user=match[3].strip(),
        verdicts=head.verdicts,
        reason_characters=head.reason_characters,
    )


def quote(record: str) -> str:
    """The record as it may stand in a prompt: one mark before every line, nothing invisible, no token of a chat."""
    return "\n".join("| " + _defused(line) for line in line_ends(record))


def line_ends(text: str) -> list[str]:
    """The lines of `text`, by everything that anybody takes for the end of a line."""
    return re.split(r"\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", text)


def one_line(text: str) -> str:
    return _defused(" ".join(text.split()))


def speaks_to_judge(text: str) -> bool:
    """Whether the text looks as if it were meant for whoever judges it. A hint: honest text may do so, rarely."""
    return _SPEAKS_TO_JUDGE.search(text) is not None


def _defused(line: str) -> str:
    shown = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)
    return _ROLE_MARKS.sub(lambda found: "\\".join(found[0]) if len(found[0]) > 1 else found[0] + "\\", shown)
