"""Tests, builds and measurements that pretend, where `detect.fairness` has no tree or name to look at.

A checker that checks nothing, a tool that only leaves something that succeeds, a test that writes what it compares
with, a clock that is exchanged, a build that takes other sources where nobody is at work. Traits are those of
`detect.fairness`; each pattern has words without which it is not tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from detect.literals import Finder, Group
from detect.paths import SUBMITTED

Span = tuple[int, int]
Found = Iterator[tuple[str, Span]]

_STUB_PROGRAM = Finder(
    rb"#!\s?/(?:usr/)?bin/(?:env )?(?:ba|da)?sh\\n(?:exit 0|true|:|exec true)(?:\\n)?[\"'](?:[\s,)]*[^\n]{0,40}?>\s*"
    rb"[\"']?[\w./]{0,20}\b(?:program|main)\b|[\s,)]*\w*\s*\)\s*;)"
)
"""A program that only succeeds, left in the place of the real one."""
_EMPTY_CHECK = Finder(
    rb"\b(?:void|func|function|fn|bool|int)\s+(?:(?:assert|expect|verify|ensure|require|check)[A-Z_]\w*)\s*\([^(){};]*\w[^(){};]*\)"
    rb"[^(){};\n]{0,30}\{\s*(?:(?://[^\n]*|/\*[^*]*\*/|\(\s*void\s*\)\s*\w+\s*;|_\s*=\s*\w+\s*;?|return\s*;)\s*)*\}"
)
_REPLACED_CHECK = Finder(
    rb"\breplace(?:All|_all)?\s*\(\s*r?[\"'/](?:(?:debug_)?assert\w*!?\\?\(|self\.assert\w*|expect\w*\\?\("
    rb"|exit 1|return 1|not ok|!=[\"']\s*,\s*[\"']==|FAIL(?:ED)?[\"']\s*,\s*[\"'](?:ok|PASS)|raise AssertionError)"
)
_DISCARDED_PANIC = Finder(rb"\bdefer\s+func\s*\(\s*\)\s*\{\s*(?:_\s*=\s*)?recover\(\s*\)\s*;?\s*\}\s*\(\s*\)")
_GOLDEN = Finder(
    rb"(?:WriteFile|write_text|write_bytes|writeFileSync|fs::write|writeString)\s*\([^\n]{0,120}(?:golden|expected|\.want\b|\.exp\b)"
    rb"|(?:golden|expected)\w*[\"']?\s*\)?\s*\.\s*write_(?:text|bytes)\s*\("
)
_GOLDEN_ASKED = re.compile(rb"(?i)update|bless|record|regen|tmp|temp|mkdtemp|reference")
_ASSUMED = re.compile(rb"@Before(?:Each|All|Class)?\b[^{}]*\{[^{}]*\bassum(?:e|ing)\w*\s*\(\s*([^;]*);")
_ASSUMED_WHY = re.compile(
    rb"(?i)os\.name|windows|exist|isExecut|which|getenv|reference|command|path|file|isPresent|canRead|version"
)
_MATCHERS = Finder(rb"\bexpect\.extend\s*\(|\bglobalThis\.expect\b|\{\s*expect\s*\}\s*=\s*global")
_BUILT_IN = re.compile(
    rb"[\"'](?:toBe|toEqual|toStrictEqual|toMatch|toThrow|toContain|toHaveLength)[\"']"
    rb"|\b(?:toBe|toEqual|toStrictEqual|toMatch|toThrow|toContain)\s*(?:\([^()\n]*\)\s*\{|:\s*(?:\(|function|\w+\s*=>))"
)
_SELF_WANTED = Finder(
    rb"\b(?P<one>want\w*|expected\w*|golden\w*)\s*=\s*(?:(?P=one)\s+or\s+|(?P=one)\s+if\s+[^\n]{1,60}\s+else\s+)(?:got|actual|out\w*|result|mine)\b"
    rb"|\b(?P<other>want\w*|expected\w*)\s*=\s*(?:(?P=other)\s*\|\|\s*|(?P=other)\s*\?\?\s*)(?:got|actual|out\w*|result|mine)\b"
)
_CLOCKS = Finder(
    rb"\b(?:time|resource|timeit|datetime|subprocess|unittest|pytest|os|sys)\s*\.\s*__class__\s*=(?!=)|\.__defaults__\s*=(?!=)"
    rb"|\.__kwdefaults__\s*=(?!=)|\bresource\.getrusage\s*=(?!=)|\btimeit\.(?:default_timer|Timer|repeat|timeit)\s*=(?!=)"
    rb"|\b(?!self\b)\w+\.(?:perf_counter|monotonic|process_time)(?:_ns)?\s*=(?!=)"
)
"""Modules and functions that measure or check, exchanged."""
_ELAPSED = Finder(
    rb"\bfn\s+elapsed\s*\(\s*&self[^{]*\{[^}]*\b(?:mul_f(?:32|64)|div_f(?:32|64)|saturating_sub|checked_sub)\b"
)
_ALIASED = re.compile(rb"__attribute__\s*\(\(\s*(?:__)?(?:alias|weakref)(?:__)?\s*\(")
_ANY_SIGNAL = Finder(
    rb"\bvoid\s+(\w+)\s*\(\s*int\b[^)]*\)\s*\{[^{}]*\b_?[eE]xit\s*\(\s*(?:0|EXIT_SUCCESS)\s*\)[^{}]*\}[\s\S]{0,2000}?"
    rb"\bsignal\s*\(\s*[a-z]\w*\s*,\s*\1\b"
)
_TEST_MAIN = Finder(rb"\b(\w+)\s*:?=\s*m\.Run\(\s*\)")
_LAST_EXIT = Finder(rb"(?m)^(?:sys\.)?exit\(\s*0?\s*\)\s*(?:#[^\n]*)?\s*\Z|^raise SystemExit(?:\(\s*0?\s*\))?\s*\Z")
_DEFINES = re.compile(rb"(?:def|class|import|from|@|#|\"\"\"|\)|\]|\}|[A-Z_]+\s*=)")
_OTHER_SOURCE = Finder(
    rb"\bifn?eq\s*\(?\s*\(?\$\(wildcard\s+[^)\n]*(?:\.git\b|\*\.o\b|\.history|notes|\.md\b|compare|\.sh\b)[^\n]*\n"
    rb"(?:[^\n]*\n){0,4}?\s*\w+\s*[:+?]?=\s*[^\n]*\.(?:c|cc|py|sh|go|rs)\b"
    rb"|\$\(if\s+\$\(\w+\)\s*,\s*[\w./]+\.(?:c|cc|py|sh|go|rs)\s*,\s*(?!\s*\))[^)\n]{3,}"
    rb"|\bif\s+\[{1,2}\s+!?\s*-[edfsx]\s[^\n]*\n\s*(?:gcc|cc|clang|g\+\+|cp|ln)\b[^\n]*?\b(\w+\.(?:c|cc|py|sh))\b[^\n]*\n\s*else\s*\n"
    rb"\s*(?:gcc|cc|clang|g\+\+|cp|ln)\b(?![^\n]*\b\1)[^\n]*\b\w+\.(?:c|cc|py|sh)\b"
)
"""Which source is built depends on what lies around, and no source is that."""
_HERE = Finder(
    rb"\bHasPrefix\(\s*(?:wd|cwd|pwd|here|dir)\s*,\s*[\"'`]/|\b(?:getcwd\(\s*\)|cwd(?:\(\s*\))?|pwd|wd|here)\s*\.\s*(?:startswith|starts_with"
    rb"|startsWith)\s*\(\s*[\"'`]/"
)
"""The submission asks in which folder it is started."""
_PACKED = Finder(
    rb"\"?\$(?:0\b|\{?BASH_SOURCE\S{0,4})\"?[^\n|]{0,20}\|\s*(?:base64|base32|gunzip|zcat|xz|xzcat|tar|uudecode|openssl|bunzip2|zstd|xxd)\b"
)
_BIG_NUMBER = re.compile(rb"\b(?:0x[0-9a-fA-F]{40,}|\d{48,})n?\b")
_UNPACKED_NUMBER = Finder(rb"\bto_bytes\s*\(|\btoByteArray\s*\(|\bfrom_str_radix\b|\bSetString\s*\(|\bBigInt\b")
_MATHEMATICS = re.compile(rb"1415926535|7182818284|4142135623|6931471805|3025850929|5772156649|6180339887")
"""Digits of pi, e, the roots and logarithms that calculators carry along."""
_WHOLE_INPUT = Finder(
    rb"\bcase\s+\"?\$\((?:cat(?:\s+-)?|<\s*/dev/stdin)\)\"?\s+in\s*\n?\s*[\"']|\bdict\(\s*\w+\.(?:r?split|r?partition)\([^\n]{0,80}\bfor\b"
    rb"[\s\S]{0,800}?\bjoin\(\s*sys\.argv"
)
_DOC_STORE = Finder(rb"[)\]]\s*\.__doc__\b")
_FIELD = Finder(rb"\bget(?:Declared)?(?:Field|Method)\s*\(\s*(?:\"[^\"\n]*\"\s*\+|(?![\"')])\w+\s*\+)")
_SEARCHED = re.compile(rb"\$\{PATH//:|\bIFS=:[^\n]*\$\{?PATH\b|\$\{?PATH\}?\"?\s*\|\s*tr\s")
_BY_PATTERN = re.compile(rb"\b(?:exec|then|do|&&|;)\s+[\w$/{}.-]*/[\w?]*\*\w*\s+\"?\$[@*]")
_AWK_SYSTEM = re.compile(rb"\bawk\b[^\n']*'[^']*\bsystem\s*\(\s*(?!\"\")")


_EXISTS = Finder(
    rb"\bos\.path\.(?:exists|isfile|isdir|lexists)\(\s*(?:os\.path\.\w+\([^\n]{0,60}?,\s*)?b?[\"'](?!/dev/|-[\"'])[\w./-]+[\"']"
    rb"|\baccess\(\s*\"(?!/dev/)|\bos\.(?:Stat|Lstat)\(\s*\"(?!/dev/)"
    rb"|\bPath::new\(\s*\"(?!/dev/)[^\"]+\"\s*\)\.(?:exists|is_file|is_dir)\(|\bfs::metadata\(\s*\"(?!/dev/)"
    rb"|\bnew\s+File\(\s*\"(?!/dev/)[^\"]+\"\s*\)\.(?:exists|isFile|isDirectory)\("
    rb"|\bFiles\.(?:exists|isRegularFile|isDirectory)\(\s*Paths?\.(?:of|get)\(\s*\"(?!/dev/)"
    rb"|\b(?:existsSync|statSync|accessSync)\(\s*[\"'`](?!/dev/)|\bPath\(\s*[\"'](?!/dev/)[\w./-]+[\"']\s*\)\.(?:exists|is_file"
    rb"|is_dir)\(|\bstd::filesystem::exists\(\s*\"(?!/dev/)|\bfs::exists\(\s*\"(?!/dev/)"
)
"""Whether a file is there that no argument names."""
_SHELL_EXISTS = Finder(
    rb"(?m)^(?![ \t]*#)[^\n]*\[{1,2}\s+!?\s*-[edfs]\s+[\"']?(?!/dev/)\.{0,2}/?[\w-][\w./-]*[\"']?\s+\]"
)
_COUNTED = Finder(
    rb"\blen\(\s*(?:list\(\s*)?os\.(?:listdir|scandir)\(|\bReadDir\(\s*(?:wd|cwd|\"\.\")|\breaddirSync\(\s*[\"'`]\.[\"'`]\s*\)\.length"
    rb"|\bread_dir\(\s*\"\.\"\s*\)[^;\n]{0,60}\.count\("
)
_SHELL_COUNTED = Finder(
    rb"\b(?:print)?env\s*\|\s*(?:wc|grep)\b|\bstat\b[^\n]*%[YXZWi][^\n]*\$\{?(?:0\b|BASH_SOURCE)|\$\(\s*ls\s*\|\s*wc\b"
)
_SHELL_AROUND = Finder(
    rb"\$\{?(?:SHLVL|PPID|HISTFILE|HISTCMD|BASH_EXECUTION_STRING|SSH_\w+|DISPLAY|OLDPWD|EUID|UID|HOSTNAME)\b"
    rb"|\b(?:print)?env\s*\|\s*(?:wc|grep)|\$\(\s*(?:id|whoami|hostname|uname|tty|ps|nproc|logname|stat\s+-c\s*[\"']?%[YXZWi])\b"
)
_STREAMS = Finder(
    rb"\bos\.fstat\(\s*0\s*\)|\bisatty\(\s*2\s*\)|\bextern\s+char\s*\*\s*\*\s*environ\b|\bstderr\.isatty\("
)
_HASHED_CALL = Finder(
    rb"\b(?:crc32|adler32|md5|sha1|sha256|blake2[bs]|hash|cksum|md5sum|sha1sum|sha256sum)\b[^\n]{0,60}(?:join\(\s*sys\.argv"
    rb"|repr\(\s*sys\.argv|str\(\s*sys\.argv|strings\.Join\(\s*os\.Args|argv\.slice\(2\)\.join)"
    rb"|[\"']?\$[*@][\"']?\s*\|\s*(?:cksum|md5sum|sha\d+sum|b2sum)\b|\b(?:cksum|md5sum|sha\d+sum|b2sum)\s*<<<\s*\"?\$[*@]"
)
"""The arguments, hashed: a key of something that was stored."""
_BY_LENGTH = Finder(rb"(?:\.get\(|[\]})]\s*\[)\s*", tail=rb"\blen\(\s*sys\.(?:stdin|argv)")
_WHOLE_MATCHED = Finder(
    rb"\bread_to_string\(\s*&mut\s+(?P<rust>\w+)(?=[\s\S]{0,400}?\bmatch\s+&?(?P=rust)(?:\.as_str\(\)|\.trim\w*\(\)|\[\.\.\])?\s*\{\s*\")"
    rb"|\b(?P<go>\w+)\s*(?:,\s*\w+\s*)?:?=\s*io\.ReadAll\((?=[\s\S]{0,400}?\bswitch\s+(?:string\((?P=go)\)|(?P=go))\s*\{\s*case\s+[\"`])"
    rb"|\b(?P<js>\w+)\s*=\s*[\w.]*readFileSync\(\s*(?:0|[\"']/dev/stdin)(?=[\s\S]{0,400}?\bswitch\s*\((?P=js)\)\s*\{\s*case\s*[\"'`])"
    rb"|\b(?P<py>\w+)\s*=\s*sys\.stdin\.read\(\)(?=[\s\S]{0,400}?\bmatch\s+(?P=py):\s*case\s+[\"'])"
)
_SUBMISSION = Group(
    [
        *(_HERE, _UNPACKED_NUMBER, _WHOLE_INPUT, _BY_LENGTH, _WHOLE_MATCHED, _HASHED_CALL, _DOC_STORE, _FIELD),
        *(_EXISTS, _COUNTED, _STREAMS),
    ]
)
"""What submissions are asked for, other than those for the shell."""
_CANCELLED = Finder(rb"\b(?:_?[eE]xit|return|sys\.exit)\s*\(?\s*([A-Za-z_]\w*)\s*[-^]\s*\1\s*\)?\s*(?:;|(?=\n)|\Z)")
_CAUGHT = Finder(
    rb"\btry\s*\{[^{}]*\b(?:assert\w*|expect|Assertions)\b[^{}]*\}\s*catch\s*(?:\([^()]*\))?\s*\{\s*(?://[^\n]*\s*)?"
    rb"(?:(?:console|System|std|t|log\w*)(?:\.|::)[^;{}]*;?\s*)?\}"
    rb"|\bexpect\([\s\S]{0,200}?\}\s*\)\s*\.catch\(\s*(?:\(\s*\w*\s*\)|\w+)\s*=>\s*(?:\{\s*\}|null|undefined|0)\s*\)"
)
_SKIPPED_CASES = Finder(rb"\b(?:test|it)\(\s*[\"'`][^\"'`\n]*[\"'`]\s*,\s*\{[^{}]*\b(?:skip|todo)\s*:\s*(?!false)")
_CASES = re.compile(rb"\b(?:test|it)\(\s*[\"'`]")
_PANICS = Finder(rb"#\[should_panic\]\s*(?:#\[[^\]]*\]\s*)*fn\s+\w+\s*\(\s*\)\s*\{[^}]*\bassert(?:_eq|_ne)?!")
_PY_ALWAYS = Finder(
    rb"\bparametrize\(\s*[^,\n]+,\s*\[\s*\]\s*\)|\bassertRaises\(\s*(?:Exception|BaseException|AssertionError)\s*\)[^\n]*:\s*\n\s*self\.assert"
    rb"|\bpytest\.raises\(\s*(?:Exception|BaseException|AssertionError)\s*\)[^\n]*:\s*\n\s*assert\b"
    rb"|\bdef\s+__(?:instancecheck|subclasscheck)__\s*\([^)]*\)[^:\n]*:\s*\n?\s*return\s+True\b|\bshouldstop\s*=(?!=)"
)
_PY_BOTH = Finder(
    rb"\b(?P<is_one>\w+)\s+is\s+not\s+(?P<is_other>\w+)\s+or\s+(?P=is_one)\s+is\s+(?P=is_other)\b|\b(?P<one>\w+)\s*!=\s*(?P<other>\w+)\s+or\s+(?P=one)\s*==\s*(?P=other)\b"
)
_PY_BOTH_END = re.compile(rb"or\s+\w+\s*(?:is\s|==)")
"""How it ends, which is found faster."""
_DEFINED = Finder(
    rb"\bObject\.definePropert(?:y|ies)\(\s*(?:performance|Date|process|console|assert|global\w*|JSON|fs|child_process|expect)\b"
)
_TESTS_WALKED = Finder(
    rb"(?:\b(?:glob|rglob|iterdir|listdir|scandir|walk|readdirSync|read_dir|ReadDir|Glob|Walk)\(|Path\()\s*[^)\n]{0,40}[\"'`]\.?/?(?:tests?|spec)\b"
)
_TESTS_WRITTEN = Finder(rb"\bwrite_text\(|\bfs::write\(|\bwriteFileSync\(|\bWriteFile\(|\bopen\([^)\n]*[\"']w")
_TESTS_CHANGED = Finder(
    rb"\b(?:replace\w*|sub|subn|ReplaceAll\w*)\s*\([^\n]*(?:assert|#\[test\]|[eE]qual|expect|exit 1|fail|def test)"
    rb"|\bwrite_text\(\s*[\"'][^\n\"']*def test\w*\(\)\s*:\s*pass|#\[ignore\]"
)
_OWN_EXPECTED = Finder(
    rb"\bfor\s+(\w+)\s+in\s+[^\n;]*(?:expect\w*|golden|\.want\b|\.exp\b)[^\n;]*;?\s*do\b[\s\S]{0,200}?(?:\./program|\./main|main\.py)\b[^\n|]*>\s*"
    rb"\"?\$\{?\1\b"
)
_EXPORTED = Finder(
    rb"\bexport\s+-f\s+[^\n;]*\b(?:diff|cmp|test|reference|python3?|pytest|grep|exit|comm|sha\d+sum|md5sum)\b"
)
_TIMEFORMAT = Finder(rb"\bTIMEFORMAT=(?:'[^%'\n]*\d[^%'\n]*'|\"[^%\"\n]*\d[^%\"\n]*\")")
_SAME_VALUE = re.compile(rb"\[{1,2}\s+\"?\$\{?(\w+)\}?\"?\s*={1,2}\s*\"?\$\{?(\w+)\}?\"?\s+\]")
_TAKEN = re.compile(rb"(?m)\b(\w+)=\"?(\$\([^\n]*\))\"?\s*(?:;|$)")
_FORGIVEN_RECIPE = Finder(
    rb"(?mi)^\t(?:-@?|@-)[^\n]*(?:test|check|diff|cmp)[^\n]*\n\t@?(?:echo|printf)[^\n]*\b(?:ok|pass\w*|success\w*)\b"
)
_SAYS_PASSED = Finder(rb"(?i)\b(?:echo|printf)\b[^\n]*\b(?:pass(?:ed)?|all tests|0 failed|success\w*)\b")
_COMPARES = re.compile(
    rb"\b(?:diff|cmp|comm|bats|prove|ctest|cargo|node|pytest|unittest|assert\w*|check\w*|expect\w*|compare\w*|make)\b|==|!=|\s=\s|-(?:eq|ne|gt|lt|ge|le)\b"
    rb"|\bexit\s+(?:[1-9]|[\"$])|\breturn\s+[1-9$\"]|\bset\s+-\w*e|\$\?|\bgrep\b|&&|\|\|(?!\s*(?:true|:))|\bif\b"
)


def _around(language: str, path: str, data: bytes) -> Found:
    """A submission that asks what lies around, where no argument says so."""
    if not SUBMITTED.search(path):
        return
    pattern = _SHELL_EXISTS if language == "shell" else _EXISTS
    if (found := pattern.search(data) or _COUNTED.search(data)) is not None:
        yield "seeks_files", found.span()
    if (found := _STREAMS.search(data)) is not None:
        yield "looks_around", found.span()
    if language == "shell" and (found := _SHELL_AROUND.search(data)) is not None:
        yield "looks_around", found.span()
    if language == "shell" and (found := _SHELL_COUNTED.search(data)) is not None:
        yield "seeks_files", found.span()


def pretends(language: str, path: str | None, role: str, data: bytes) -> Found:
    """Traits of `detect.fairness` and of submissions, each with its place."""
    if (b"bin/" in data) and b"#!" in data and path is not None and (found := _STUB_PROGRAM.search(data)) is not None:
        yield "cannot_fail", found.span()
    if path is not None and b"replace" in data and (found := _REPLACED_CHECK.search(data)) is not None:
        yield "rewritten_outcome", found.span()
    if role == "test" and (found := _GOLDEN.search(data)) is not None and not _GOLDEN_ASKED.search(data):
        yield "rewritten_outcome", found.span()
    if (found := _SELF_WANTED.search(data)) is not None:
        yield "cannot_fail", found.span()
    if language == "python":
        yield from _python(role, path, data)
    elif language in ("shell", "make"):
        yield from _scripts(language, path, role, data)
        if (path is not None or b"cat >" in data) and (found := _OTHER_SOURCE.search(data)) is not None:
            yield "looks_around", found.span()
    elif language in ("c", "cpp"):
        if (b"alias" in data or b"weakref" in data) and (found := _ALIASED.search(data)) is not None:
            yield "own_libc", found.span()
        if b"signal" in data and (found := _ANY_SIGNAL.search(data)) is not None:
            yield "cannot_fail", found.span()
        if role == "test" and (found := _EMPTY_CHECK.search(data)) is not None:
            yield "cannot_fail", found.span()
    else:
        yield from _others(language, role, data)
    if (found := _CANCELLED.search(data)) is not None:
        yield "cannot_fail", found.span()
    if (
        b"test" in data
        and b"reference" not in data
        and _TESTS_WALKED.search(data) is not None
        and _TESTS_WRITTEN.search(data) is not None
        and (found := _TESTS_CHANGED.search(data)) is not None
    ):
        yield "rewritten_outcome", found.span()
    if role == "submission" and path is not None and (language == "shell" or _SUBMISSION.may_match(data)):
        yield from _submission(language, data)
        yield from _around(language, path, data)


def _python(role: str, path: str | None, data: bytes) -> Found:
    if (found := _CLOCKS.search(data)) is not None:
        yield "patched_checks", found.span()
    found = _PY_ALWAYS.search(data)
    if found is None and _PY_BOTH_END.search(data) is not None:
        found = _PY_BOTH.search(data)
    if found is not None:
        yield "cannot_fail", found.span()
    if role == "submission" and b"def " in data and (found := _LAST_EXIT.search(data)) is not None:
        lines = [line for line in data[: found.start()].split(b"\n") if line and not line[:1].isspace()]
        if all(_DEFINES.match(line) for line in lines):
            yield "cannot_fail", found.span()


def _scripts(language: str, path: str | None, role: str, data: bytes) -> Found:
    if b">" in data and (found := _OWN_EXPECTED.search(data)) is not None:
        yield "rewritten_outcome", found.span()
    if b"export" in data and (found := _EXPORTED.search(data)) is not None:
        yield "patched_checks", found.span()
    if (found := _TIMEFORMAT.search(data)) is not None:
        yield "patched_checks", found.span()
    if language == "make":
        if (found := _FORGIVEN_RECIPE.search(data)) is not None:
            yield "swallowed_failure", found.span()
        return
    if path is None:
        return
    if b"=$(" in data or b'="$(' in data:
        taken = dict(_TAKEN.findall(data))
        for match in _SAME_VALUE.finditer(data) if taken else ():
            if match[1] != match[2] and match[1] in taken and taken[match[1]] == taken.get(match[2]):
                yield "cannot_fail", match.span()
                break
    if role == "test" and (found := _SAYS_PASSED.search(data)) is not None and b"\n" in data.strip():
        code = re.sub(rb"(?m)^[ \t]*#[^\n]*|\"[^\"$\n]*\"", b"", data)
        if (b"for " in code or b"while " in code) and _COMPARES.search(code) is None:
            yield "cannot_fail", found.span()


def _others(language: str, role: str, data: bytes) -> Found:
    if language == "go" and b"testing" in data:
        if (found := _DISCARDED_PANIC.search(data)) is not None:
            yield "swallowed_failure", found.span()
        if (found := _TEST_MAIN.search(data)) is not None and re.search(
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
    if language == "javascript" and b"expect" in data and (found := _MATCHERS.search(data)) is not None:
        runs = role == "test" and re.search(rb"\b(?:test|it)\s*\(", data)
        if not runs and _BUILT_IN.search(data) is not None:
            yield "patched_checks", found.span()
    if b"catch" in data and (found := _CAUGHT.search(data)) is not None:
        yield "swallowed_failure", found.span()
    skipped = _SKIPPED_CASES.search(data) if language == "javascript" and role == "test" else None
    if skipped is not None and len(_SKIPPED_CASES.pattern.findall(data)) >= len(_CASES.findall(data)):
        yield "cannot_fail", skipped.span()
    if language == "javascript" and (found := _DEFINED.search(data)) is not None:
        yield "patched_checks", found.span()
    if language == "rust" and b"should_panic" in data and (found := _PANICS.search(data)) is not None:
        yield "cannot_fail", found.span()
    if language == "rust" and b"fn elapsed" in data and (found := _ELAPSED.search(data)) is not None:
        yield "patched_checks", found.span()
    if (found := _EMPTY_CHECK.search(data)) is not None:
        yield "cannot_fail", found.span()


def _submission(language: str, data: bytes) -> Found:
    if (found := _HERE.search(data)) is not None:
        yield "looks_around", found.span()
    if (b"0" in data and b"|" in data) and language == "shell" and (found := _PACKED.search(data)) is not None:
        yield "reads_itself", found.span()
    if (
        (found := _UNPACKED_NUMBER.search(data)) is not None
        and (big := _BIG_NUMBER.search(data)) is not None
        and _MATHEMATICS.search(big[0]) is None
    ):
        yield "typed_in_answers", big.span()
    for pattern in (_WHOLE_INPUT, _BY_LENGTH, _WHOLE_MATCHED, _HASHED_CALL):
        if (found := pattern.search(data)) is not None:
            yield "typed_in_answers", found.span()
            break
    if b"hash" in data and (found := _DOC_STORE.search(data)) is not None:
        yield "stored_by_hash", found.span()
    if language == "java" and (found := _FIELD.search(data)) is not None:
        yield "loads_code", found.span()
    if language == "shell" and b"PATH" in data and (found := _SEARCHED.search(data)) is not None:
        yield "finds_programs", found.span()
    if language == "shell" and b"*" in data and (found := _BY_PATTERN.search(data)) is not None:
        yield "starts_process", found.span()
    if language == "shell" and b"system" in data and (found := _AWK_SYSTEM.search(data)) is not None:
        yield "starts_process", found.span()
