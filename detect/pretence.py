"""Tests, builds and measurements that pretend, where `detect.fairness` has no tree or name to look at.

A checker that checks nothing, a tool that only leaves something that succeeds, a test that writes what it compares
with, a clock that is exchanged, a build that takes other sources where nobody is at work. Traits are those of
`detect.fairness`; each pattern has words without which it is not tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from detect.literals import search

Span = tuple[int, int]
Found = Iterator[tuple[str, Span]]

_STUB_PROGRAM = re.compile(
    rb"#!\s?/(?:usr/)?bin/(?:env )?(?:ba|da)?sh\\n(?:exit 0|true|:|exec true)(?:\\n)?[\"'](?:[\s,)]*[^\n]{0,40}?>\s*"
    rb"[\"']?[\w./]{0,20}\b(?:program|main)\b|[\s,)]*\w*\s*\)\s*;)"
)
"""A program that only succeeds, left in the place of the real one."""
_EMPTY_CHECK = re.compile(
    rb"\b(?:void|func|function|fn|bool|int)\s+((?:assert|expect|verify|ensure|require|check)[A-Z_]\w*)\s*\([^(){};]*\w[^(){};]*\)"
    rb"[^(){};\n]{0,30}\{\s*(?:(?://[^\n]*|/\*[^*]*\*/|\(\s*void\s*\)\s*\w+\s*;|_\s*=\s*\w+\s*;?|return\s*;)\s*)*\}"
)
_REPLACED_CHECK = re.compile(
    rb"\breplace(?:All|_all)?\s*\(\s*r?[\"'/](?:(?:debug_)?assert\w*!?\\?\(|self\.assert\w*|expect\w*\\?\("
    rb"|exit 1|return 1|not ok|!=[\"']\s*,\s*[\"']==|FAIL(?:ED)?[\"']\s*,\s*[\"'](?:ok|PASS)|raise AssertionError)"
)
_DISCARDED_PANIC = re.compile(rb"\bdefer\s+func\s*\(\s*\)\s*\{\s*(?:_\s*=\s*)?recover\(\s*\)\s*;?\s*\}\s*\(\s*\)")
_GOLDEN = re.compile(
    rb"(?:WriteFile|write_text|write_bytes|writeFileSync|fs::write|writeString)\s*\([^\n]{0,120}(?:golden|expected|\.want\b|\.exp\b)"
    rb"|(?:golden|expected)\w*[\"']?\s*\)?\s*\.\s*write_(?:text|bytes)\s*\("
)
_GOLDEN_ASKED = re.compile(rb"(?i)update|bless|record|regen|tmp|temp|mkdtemp|reference")
_ASSUMED = re.compile(rb"@Before(?:Each|All|Class)?\b[^{}]*\{[^{}]*\bassum(?:e|ing)\w*\s*\(\s*([^;]*);")
_ASSUMED_WHY = re.compile(
    rb"(?i)os\.name|windows|exist|isExecut|which|getenv|reference|command|path|file|isPresent|canRead|version"
)
_MATCHERS = re.compile(rb"\bexpect\.extend\s*\(|\bglobalThis\.expect\b|\{\s*expect\s*\}\s*=\s*global")
_BUILT_IN = re.compile(
    rb"[\"'](?:toBe|toEqual|toStrictEqual|toMatch|toThrow|toContain|toHaveLength)[\"']"
    rb"|\b(?:toBe|toEqual|toStrictEqual|toMatch|toThrow|toContain)\s*(?:\([^()\n]*\)\s*\{|:\s*(?:\(|function|\w+\s*=>))"
)
_SELF_WANTED = re.compile(
    rb"\b(want\w*|expected\w*|golden\w*)\s*=\s*(?:\1\s+or\s+|\1\s+if\s+[^\n]{1,60}\s+else\s+)(?:got|actual|out\w*|result|mine)\b"
    rb"|\b(want\w*|expected\w*)\s*=\s*(?:\2\s*\|\|\s*|\2\s*\?\?\s*)(?:got|actual|out\w*|result|mine)\b"
)
_CLOCKS = re.compile(
    rb"\b(?:time|resource|timeit|datetime|subprocess|unittest|pytest|os|sys)\s*\.\s*__class__\s*=(?!=)|\.__defaults__\s*=(?!=)"
    rb"|\.__kwdefaults__\s*=(?!=)|\bresource\.getrusage\s*=(?!=)|\btimeit\.(?:default_timer|Timer|repeat|timeit)\s*=(?!=)"
)
"""Modules and functions that measure or check, exchanged."""
_ELAPSED = re.compile(
    rb"\bfn\s+elapsed\s*\(\s*&self[^{]*\{[^}]*\b(?:mul_f(?:32|64)|div_f(?:32|64)|saturating_sub|checked_sub)\b"
)
_ALIASED = re.compile(rb"__attribute__\s*\(\(\s*(?:__)?(?:alias|weakref)(?:__)?\s*\(")
_ANY_SIGNAL = re.compile(
    rb"\bvoid\s+(\w+)\s*\(\s*int\b[^)]*\)\s*\{[^{}]*\b_?[eE]xit\s*\(\s*(?:0|EXIT_SUCCESS)\s*\)[^{}]*\}[\s\S]{0,2000}?"
    rb"\bsignal\s*\(\s*[a-z]\w*\s*,\s*\1\b"
)
_TEST_MAIN = re.compile(rb"\b(\w+)\s*:?=\s*m\.Run\(\s*\)")
_LAST_EXIT = re.compile(rb"(?m)^(?:sys\.)?exit\(\s*0?\s*\)\s*(?:#[^\n]*)?\s*\Z|^raise SystemExit(?:\(\s*0?\s*\))?\s*\Z")
_DEFINES = re.compile(rb"(?:def|class|import|from|@|#|\"\"\"|\)|\]|\}|[A-Z_]+\s*=)")
_OTHER_SOURCE = re.compile(
    rb"\bifn?eq\s*\(?\s*\(?\$\(wildcard\s+[^)\n]*(?:\.git\b|\*\.o\b|\.history|notes|\.md\b|tests?\b|compare|\.sh\b)[^\n]*\n"
    rb"(?:[^\n]*\n){0,4}?\s*\w+\s*[:+?]?=\s*[^\n]*\.(?:c|cc|py|sh|go|rs)\b"
    rb"|\$\(if\s+\$\(\w+\)\s*,\s*[\w./]+\.(?:c|cc|py|sh|go|rs)\s*,\s*(?!\s*\))[^)\n]{3,}"
    rb"|\bif\s+\[{1,2}\s+!?\s*-[edfsx]\s[^\n]*\n\s*(?:gcc|cc|clang|g\+\+|cp|ln)\b[^\n]*?\b(\w+\.(?:c|cc|py|sh))\b[^\n]*\n\s*else\s*\n"
    rb"\s*(?:gcc|cc|clang|g\+\+|cp|ln)\b(?![^\n]*\b\1)[^\n]*\b\w+\.(?:c|cc|py|sh)\b"
)
"""Which source is built depends on what lies around, and no source is that."""
_HERE = re.compile(
    rb"\bHasPrefix\(\s*(?:wd|cwd|pwd|here|dir)\s*,\s*[\"'`]/|\b(?:getcwd\(\s*\)|cwd(?:\(\s*\))?|pwd|wd|here)\s*\.\s*(?:startswith|starts_with"
    rb"|startsWith)\s*\(\s*[\"'`]/"
)
"""The submission asks in which folder it is started."""
_PACKED = re.compile(
    rb"\"?\$(?:0\b|\{?BASH_SOURCE\S{0,4})\"?[^\n|]{0,20}\|\s*(?:base64|base32|gunzip|zcat|xz|xzcat|tar|uudecode|openssl|bunzip2|zstd|xxd)\b"
)
_BIG_NUMBER = re.compile(rb"\b(?:0x[0-9a-fA-F]{40,}|\d{48,})n?\b")
_UNPACKED_NUMBER = re.compile(rb"\bto_bytes\s*\(|\btoByteArray\s*\(|\bfrom_str_radix\b|\bSetString\s*\(|\bBigInt\b")
_WHOLE_INPUT = re.compile(
    rb"\bcase\s+\"?\$\((?:cat(?:\s+-)?|<\s*/dev/stdin)\)\"?\s+in\s*\n?\s*[\"']|\bdict\(\s*\w+\.(?:r?split|r?partition)\([^\n]{0,80}\bfor\b"
    rb"[\s\S]{0,800}?\bjoin\(\s*sys\.argv"
)
_DOC_STORE = re.compile(rb"[)\]]\s*\.__doc__\b")
_FIELD = re.compile(rb"\bget(?:Declared)?(?:Field|Method)\s*\(\s*(?:\"[^\"\n]*\"\s*\+|(?![\"')])\w+\s*\+)")
_AWK_SYSTEM = re.compile(rb"\bawk\b[^\n']*'[^']*\bsystem\s*\(\s*(?!\"\")")


def pretends(language: str, path: str | None, role: str, data: bytes) -> Found:
    """Traits of `detect.fairness` and of submissions, each with its place."""
    if (b"bin/" in data) and b"#!" in data and path is not None and (found := search(_STUB_PROGRAM, data)) is not None:
        yield "cannot_fail", found.span()
    if path is not None and b"replace" in data and (found := search(_REPLACED_CHECK, data)) is not None:
        yield "rewritten_outcome", found.span()
    if role == "test" and (found := search(_GOLDEN, data)) is not None and not _GOLDEN_ASKED.search(data):
        yield "rewritten_outcome", found.span()
    if (found := search(_SELF_WANTED, data)) is not None:
        yield "cannot_fail", found.span()
    if language == "python":
        yield from _python(role, path, data)
    elif language in ("shell", "make"):
        if (path is not None or b"cat >" in data) and (found := search(_OTHER_SOURCE, data)) is not None:
            yield "looks_around", found.span()
    elif language in ("c", "cpp"):
        if (b"alias" in data or b"weakref" in data) and (found := _ALIASED.search(data)) is not None:
            yield "own_libc", found.span()
        if b"signal" in data and (found := search(_ANY_SIGNAL, data)) is not None:
            yield "cannot_fail", found.span()
        if role == "test" and (found := search(_EMPTY_CHECK, data)) is not None:
            yield "cannot_fail", found.span()
    else:
        yield from _others(language, role, data)
    if role == "submission":
        yield from _submission(language, data)


def _python(role: str, path: str | None, data: bytes) -> Found:
    if (found := search(_CLOCKS, data)) is not None:
        yield "patched_checks", found.span()
    if role == "submission" and b"def " in data and (found := search(_LAST_EXIT, data)) is not None:
        lines = [line for line in data[: found.start()].split(b"\n") if line and not line[:1].isspace()]
        if all(_DEFINES.match(line) for line in lines):
            yield "cannot_fail", found.span()


def _others(language: str, role: str, data: bytes) -> Found:
    if language == "go" and b"testing" in data:
        if (found := search(_DISCARDED_PANIC, data)) is not None:
            yield "swallowed_failure", found.span()
        if (found := search(_TEST_MAIN, data)) is not None and re.search(
            rb"\b"
            + re.escape(found[1])
            + rb"\s*(?:\^=|&=|&\^=|-=|\*=|%=|>>=|=\s*(?:0\b|"
            + re.escape(found[1])
            + rb"\s*[-^*%&]))",
            data[found.end() :],
        ):
            yield "cannot_fail", found.span()
    if language == "java" and b"assum" in data:
        for found in _ASSUMED.finditer(data):
            names = re.findall(rb"[A-Za-z_]\w*", found[1])
            said = found[1] + b" ".join(
                re.findall(rb"\b" + re.escape(name) + rb"\s*=([^;]*);", data)[0:1][0]
                for name in names[:4]
                if re.search(rb"\b" + re.escape(name) + rb"\s*=[^;=][^;]*;", data)
            )
            if not _ASSUMED_WHY.search(re.sub(rb"\"[^\"\n]*\"", b"", said)):
                yield "cannot_fail", found.span()
                break
    if language == "javascript" and b"expect" in data and (found := search(_MATCHERS, data)) is not None:
        runs = role == "test" and re.search(rb"\b(?:test|it)\s*\(", data)
        if not runs and _BUILT_IN.search(data) is not None:
            yield "patched_checks", found.span()
    if language == "rust" and b"fn elapsed" in data and (found := search(_ELAPSED, data)) is not None:
        yield "patched_checks", found.span()
    if (found := search(_EMPTY_CHECK, data)) is not None:
        yield "cannot_fail", found.span()


def _submission(language: str, data: bytes) -> Found:
    if (found := search(_HERE, data)) is not None:
        yield "looks_around", found.span()
    if (b"0" in data and b"|" in data) and language == "shell" and (found := search(_PACKED, data)) is not None:
        yield "reads_itself", found.span()
    if (found := search(_UNPACKED_NUMBER, data)) is not None and (big := _BIG_NUMBER.search(data)) is not None:
        yield "typed_in_answers", big.span()
    if (found := search(_WHOLE_INPUT, data)) is not None:
        yield "typed_in_answers", found.span()
    if b"__doc__" in data and b"hash" in data and (found := _DOC_STORE.search(data)) is not None:
        yield "stored_by_hash", found.span()
    if language == "java" and b"get" in data and (found := search(_FIELD, data)) is not None:
        yield "loads_code", found.span()
    if language == "shell" and b"system" in data and (found := _AWK_SYSTEM.search(data)) is not None:
        yield "starts_process", found.span()
