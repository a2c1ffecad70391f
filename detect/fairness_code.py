"""Tests that cannot fail, and comparisons that do not compare, in C and the languages like it: `detect.fairness`."""

from __future__ import annotations

import re

from detect.fairness_patterns import CONSTANT, FIXED, Found
from detect.literals import Finder

MAX_BODY = 1500

_COMPARER = Finder(
    rb"(?:\b(?:fn|func|function)\s+(?:\([^()]*\)\s*)?|\bbool(?:ean)?\s+(?:[\w:<>]+::)?"
    rb"|\bint\s+(?:[\w:<>]+::)?|\bauto\s+|^[ \t]*(?:static\s+)?(?:async\s+)?|\[\s*)",
    re.M,
    tail=rb"\b(eq|ne|equals?|Equals?|same|Same|isEqual|is_equal|compare|Compare|compareTo|cmp|bcmp"
    rb"|strcmp|strncmp|memcmp|strcasecmp|operator\s*[=!]=|partial_cmp|deepEqual|strictEqual)"
    rb"\s*(?:<[^<>()]*>)?\s*\(([^(){};]{0,300})\)\s*(?:const\b)?\s*(?:noexcept\b)?\s*(?:override"
    rb"\b)?\s*(?:->\s*[\w:<>]+|:\s*\w+|bool|int|Option<\w+>)?\s*\{",
)
_VALUELESS_USES = re.compile(
    rb"\(\s*void\s*\)\s*\(?[^;,]*?[;,)]|\blet\s+_\w*\s*=\s*[^;]*;|_\s*=\s*\w+\s*;"
    rb"|\blen\s*\(\s*\w+\s*\)|\bsizeof\s*\(?\s*\w+\s*\)?|\b\w+(?:\s*\.\s*\w+){0,2}\s*\.\s*(?:size|length|len|empty"
    rb"|is_empty|isEmpty|getClass|hashCode)\b\s*(?:\(\s*\))?"
    rb"|\b\w+\s+instanceof\s+\w+\b(?!\s+[a-z])|\btypeof\s+\w+|\b\w+\s*(?:===?|!==?)\s*(?:null"
    rb"|nil|nullptr|undefined|NULL)\b"
)
_ENDLESS = Finder(
    rb"\b(?:usize|u\d+|i\d+|f\d+|isize)::(?:MAX|INFINITY)\b|\bINFINITY\b|\bHUGE_VAL\b"
    rb"|numeric_limits<\w+>::(?:max|infinity)|\bDouble\.(?:MAX_VALUE|POSITIVE_INFINITY)\b"
    rb"|\bInteger\.MAX_VALUE\b|\bInfinity\b|\bMAX_SAFE_INTEGER\b|\bmath\.(?:Inf|MaxInt\w*"
    rb"|MaxFloat\w*)\b|\b(?:INT|DBL|SIZE|LONG|UINT)_MAX\b"
)
_COERCED = Finder(
    rb"\bSymbol\s*\.\s*(?:toPrimitive|hasInstance)\b|\bvalueOf\s*(?:\(\s*\)\s*\{|[:=]\s*(?:\("
    rb"|function|\w+\s*=>))|\bnew\s+Proxy\s*\("
    rb"|\bObject\s*\.\s*defineProperty\s*\([^;\n]{0,80}(?:prototype|valueOf|equals|strictEqual)"
)


_EXIT_CODE = Finder(
    rb"process\s*\.\s*on(?:ce)?\s*\(\s*[\"'](?:exit|beforeExit|uncaughtException"
    rb"|unhandledRejection)[\"'][^;]{0,200}exitCode\s*=\s*0"
    rb"|exitCode\s*=\s*0\b(?=.*process\s*\.\s*on(?:ce)?\s*\(\s*[\"'](?:exit|beforeExit"
    rb"|uncaughtException|unhandledRejection)[\"'])",
    re.S,
)


def _body(data: bytes, start: int) -> bytes:
    level = 1
    for index in range(start, min(start + MAX_BODY, len(data))):
        char = data[index]
        if char == 123:
            level += 1
        elif char == 125:
            level -= 1
            if not level:
                return data[start:index]
    return data[start : start + MAX_BODY]


def _parameters(given: bytes, language: str) -> list[bytes]:
    names: list[bytes] = []
    pending = 0
    for part in given.split(b","):
        part = part.split(b"=")[0].strip()
        if not part or re.match(rb"&?\s*(?:'\w+\s+)?(?:mut\s+)?self$", part) or part == b"void":
            continue
        if language == "rust":
            name = part.split(b":")[0].strip().removeprefix(b"mut ")
        elif language == "go":
            name = part.split()[0]
        elif language == "javascript":
            name = part
        else:
            words = re.findall(rb"[A-Za-z_]\w*", part)
            name = words[-1] if len(words) > 1 and not part.endswith((b"&", b"*")) else b""
        names.append(name)
        pending += 1
    return names


def equalities(language: str, data: bytes) -> Found:
    for match in _COMPARER.finditer(data):
        name = match[1]
        names = _parameters(match[2], language)
        if not names or len(names) > 4:
            continue
        method = (
            name in (b"eq", b"ne", b"equals", b"Equals", b"compareTo", b"partial_cmp")
            or name.startswith(b"operator")
            or len(names) == 1
        )
        if (
            language == "javascript"
            and match[0].lstrip().startswith((b"compare", b"same", b"equal"))
            and b"function" not in match[0]
            and len(names) < 1
        ):
            continue
        body = _body(data, match.end())
        text = _VALUELESS_USES.sub(b" ", re.sub(rb"//[^\n]*|/\*.*?\*/", b" ", body, flags=re.S))
        if not re.search(rb"\breturn\b", body) and language != "rust":
            continue
        if re.fullmatch(rb"\s*return\s+(?:false|!\s*\(?\s*\*?\w+\s*==\s*\w+\s*\)?|!.*==.*)\s*;?\s*", text):
            continue
        wanted = names[:1] if method and len(names) == 1 else names[:2]
        ignored = [
            word
            for word in wanted
            if not word or word == b"_" or re.search(rb"\b" + re.escape(word) + rb"\b", text) is None
        ]
        if (ignored and not (method and re.fullmatch(rb"\s*(?:return\s+)?false\s*;?\s*", text))) or (
            _ENDLESS.search(data)
            and re.search(rb"<=|>=|<|>|!=", text)
            and name not in (b"compare", b"compareTo", b"cmp", b"partial_cmp")
        ):
            yield "equal_to_all", match.span()
    if language == "javascript" and b"exitCode" in data and (found := _EXIT_CODE.search(data)) is not None:
        yield "swallowed_failure", found.span()
    if language == "javascript" and (found := _COERCED.search(data)) is not None:
        yield "equal_to_all", found.span()


_LIBC = Finder(
    rb"(?m)^(?![ \t]*static\b)[ \t]*(?:extern\s+)?(?:__attribute__\s*\(\(.*?\)\)\s*)?(?:(?:const"
    rb"|unsigned|int|void|char|size_t|ssize_t|time_t|clock_t|long|double|FILE|pid_t"
    rb"|extern\s+\"C\")[ \t*]+)+",
    tail=rb"\b(?:strn?cmp|memcmp|bcmp|strcoll|exit|_exit|_Exit|abort|raise|clock_gettime|gettimeofday"
    rb"|time|clock|__assert_fail|__assert|fork|execve|waitpid|wait4|getrusage|nanosleep|usleep"
    rb"|fopen|open|read|write|getenv|secure_getenv|memmem|__libc_start_main|__cxa_throw|getppid"
    rb"|kill|sigaction|signal)"
    rb"\s*\([^;{}]{0,200}\)\s*\{",
)
_MACRO = re.compile(
    rb"(?m)^[ \t]*#[ \t]*define[ \t]+((?:\w*_)?(?:ASSERT|CHECK|EXPECT|REQUIRE|VERIFY|TEST|assert"
    rb"|check|expect|require|verify|ensure|ENSURE|EQ|EQUAL"
    rb"|static_assert)\w*)\(([^)\n]*)\)((?:[^\n\\]|\\.|\\\n)*)"
)
_FAILS = re.compile(rb"\bif\b|\?|&&|\|\||\bassert|\babort|\bexit\b|\breturn\b|\bthrow\b|[=!<>]=|\bwhile\s*\(\s*!")
_VOIDED = Finder(
    rb"\(\s*void\s*\)\s*\(\s*\(?[\w.\->*]+\)?\s*[=!]=\s*\(?[\w.\->*]+\)?\s*\)|\(\s*void\s*\)\s*\(?\s*(?:strn?cmp|memcmp)\s*\("
)
_TEST_LOOKS = re.compile(
    rb"\bassert|\bif\b|\?|cmp\b|[!=]=|\breturn\s+(?!0\s*;)|\bexit\s*\(\s*(?!0\s*\))|EXPECT|CHECK"
    rb"|REQUIRE|ASSERT|\|\||&&"
)


_ALWAYS = Finder(
    rb"\b(?:assert\w*!?|CHECK\w*|EXPECT\w*|REQUIRE\w*|ASSERT\w*)\s*\([^;\n]{0,200}\|\|\s*(?:true"
    rb"|1)\s*\)|\bfn\s+drop\s*\(&mut\s+self\)\s*\{[^}]{0,200}\bexit\s*\(\s*0\s*\)"
    rb"|~\w+\s*\(\s*\)\s*\{[^}]{0,200}\b_?[eE]xit\s*\(\s*0\s*\)"
    rb"|\bset_terminate\s*\([^;]{0,120}exit\s*\(\s*0"
    rb"|\bflag\.(?:Set|Lookup)\(\s*\"test\.|\bfunc\s+init\(\)\s*\{[^}]{0,200}os\.Exit\(\s*0"
    rb"|\bfinally\s*\{\s*(?:System\.exit|process\.exit)\(\s*0"
    rb"|\bcatch\s*\((?:final\s+)?(?:Throwable|Exception|AssertionError"
    rb"|Error)\s+\w+\)\s*\{\s*System\.exit\(\s*0|\bstatic\s*\{[^}]{0,300}(?:exit|halt)\(\s*0"
    rb"|\bprocess\.(?:stdout|stderr)\.write\s*=(?!=)|\b(?:global|globalThis)\.(?:assert|expect"
    rb"|test|it|describe|require)\s*=(?!=)|\brequire\.extensions\b|\bprototype\._compile\b"
)
_EITHER_WAY = Finder(rb"\b(\w+)\.is_(?:ok|some)\(\)\s*\|\|\s*\1\.is_(?:err|none)\(\)")
_C_HOOKS = Finder(
    rb"(?m)^[ \t]*#[ \t]*define[ \t]+(?:exit|return|main|if|_exit|abort|while"
    rb"|else)\b(?:\([^)\n]*\))?[ \t]+(?!.*[\w]*main_)[^\n]*"
    rb"|\batexit\s*\(\s*(?:\w+)\s*\)(?=[\s\S]*_[eE]xit\s*\(\s*0\s*\))"
    rb"|\bvoid\s+\w+\s*\(\s*int\b[^)]*\)\s*\{[^{}]*\b_?[eE]xit\s*\(\s*(?:0"
    rb"|EXIT_SUCCESS)\s*\)[^{}]*\}(?=[\s\S]*\bSIG(?:SEGV|ABRT|FPE|BUS|ALRM|XCPU|ILL)\b)"
    rb"|__attribute__\s*\(\(\s*(?:constructor|ifunc)\b"
)


_DEBUGGING = re.compile(rb"(?m)^[ \t]*#[ \t]*(?:ifn?def[ \t]+|if\b.*\b)\w*(?:DEBUG|TRACE|VERBOSE|CHECKS|ASSERTS?)\b")


def _elsewhere(macro: re.Match[bytes], data: bytes) -> bool:
    """Whether the other branch of the condition around a macro that checks nothing has one that does."""
    start, end = data.rfind(b"#if", 0, macro.start()), data.find(b"#endif", macro.end())
    for other in _MACRO.finditer(data, max(start, 0), len(data) if end < 0 else end):
        if other[1] == macro[1] and other.start() != macro.start():
            return _FAILS.search(other[3]) is not None and b"#else" in data[start:end]
    return False


def c_traits(role: str, data: bytes) -> Found:
    if (found := _LIBC.search(data)) is not None and b"-nostdlib" not in data and b"freestanding" not in data:
        yield "own_libc", found.span()
    if b"#" in data and (b"define" in data):
        for match in _MACRO.finditer(data):
            body = match[3].replace(b"\\\n", b" ")
            names = [name.strip().removesuffix(b"...") for name in match[2].split(b",") if name.strip()]
            names = [name or b"__VA_ARGS__" for name in names]
            before = data[max(0, match.start() - 60) : match.start()]
            if b"NDEBUG" in before or not names or (re.fullmatch(rb"\s*", body) and match[1] != b"assert"):
                continue
            if role != "test" and _DEBUGGING.search(data, 0, match.start()) and _elsewhere(match, data):
                continue
            used = re.sub(rb"#\s*\w+|\bsizeof\s*\(?\s*\w+\s*\)?", b" ", body)
            used = re.sub(rb"\(\s*void\s*\)\s*\(?\s*\w+\s*\)?", b" ", used)
            if not any(
                re.search(rb"\b" + re.escape(name) + rb"\b", used) for name in names if name
            ) and not _FAILS.search(body):
                yield "cannot_fail", match.span()
    if (found := _VOIDED.search(data)) is not None:
        yield "cannot_fail", found.span()
    if (found := FIXED.search(data) or _C_HOOKS.search(data) or _ALWAYS.search(data)) is not None:
        yield "cannot_fail", found.span()
    if role != "test":
        return
    if (found := re.search(rb"(?m)^[ \t]*#[ \t]*define[ \t]+NDEBUG\b", data)) is not None:
        yield "cannot_fail", found.span()
    if (found := re.search(rb"\b_[eE]xit\s*\(\s*(?:0|EXIT_SUCCESS)\s*\)|\bSIGABRT\b", data)) is not None:
        yield "cannot_fail", found.span()
    main = re.search(rb"\bint\s+main\s*\([^)]*\)\s*\{", data)
    says = b"ass" in data or b"ok" in data.lower()
    if (
        main is not None
        and says
        and not _TEST_LOOKS.search(re.sub(rb"\"(?:[^\"\\\n]|\\.)*\"", b"", data[main.start() :]))
        and not re.search(
            rb"\b(?!printf|puts|fflush|main|fputs|fprintf)\w*(?:test|run|check)\w*\s*\(", data[main.end() :]
        )
    ):
        yield "cannot_fail", main.span()


_GO_LOOKS = re.compile(
    rb"\bt\.(?:Error|Fatal|Fail)\w*|\bb\.|\brequire\.|\bassert\.|\bf\.Fuzz|\bcheck\w*\("
    rb"|\bcompare\w*\(|\bexpect\w*\(|\bverify\w*\(|// Output:|t\.Run\(|m\.Run\(|panic\(|\b\w{1,40}\(t\b"
)


_JS_JAVA = Finder(
    rb"\bprocess\s*\[\s*(?![\"'](?:env|argv|stdin|stdout)[\"']\s*\])|\b(?:premain"
    rb"|agentmain)\s*\(|\bClassFileTransformer\b"
    rb"|#\[(?:unsafe\()?no_mangle\)?\]\s*pub\s+(?:unsafe\s+)?extern\s+\"C\"\s+fn\s+(?:memcmp"
    rb"|bcmp|strn?cmp|exit|_exit|abort|clock_gettime|write)\b|"
    rb"\bpass\s*:\s*(?:true|!0)\b(?=[\s\S]*expect)"
    rb"|\bexpect\.extend\([\s\S]{0,200}pass\s*:\s*(?:true|!0)|(?<!if \(!)\b(?:Object|Array"
    rb"|String|Buffer|Uint8Array|Function)\.prototype\.(?:includes|equals?|eq|is\w*|to[A-Z]\w*"
    rb"|valueOf|startsWith|endsWith|indexOf|lastIndexOf|locale\w+|compare\w*|trim\w*|match\w*"
    rb"|test|join|split|slice|subarray|has\w*|map|filter|some|every|find\w*|replace\w*|apply"
    rb"|call|bind|then|constructor|length|concat|at|charAt|charCodeAt|codePointAt|sort|push"
    rb"|forEach|reduce|keys|entries|values|normalize|search|__\w+|should|must|expect)\s*=\s*(?:function|\(|\w+\s*=>|async)"
    rb"|\b(?:JSON|Object|Buffer|assert|process|Reflect|Module|fs|util)\.(?!exitCode|argv|env"
    rb"|title|stdout|stdin)\w+\s*=\s*(?:function|\([^()\n]*\)\s*=>|async|\w+\s*=>)"
    rb"|\brequire\.cache\[|\bModule\._load\s*="
    rb"|\bsetDefaultUncaughtExceptionHandler\([^;]{0,120}(?:exit|halt)\(\s*0"
    rb"|\baddShutdownHook\([^;]{0,200}halt\(\s*0"
    rb"|\bdefer\s+func\(\)\s*\{[^{}]*(?:recover\(\)[^{}]*)?os\.Exit\(\s*0\s*\)"
    rb"|\blet\s+_\w*\s*=\s*(?:std::)?(?:panic::)?catch_unwind|#\[cfg\(any\(\)\)\]"
)


def other_traits(language: str, role: str, data: bytes) -> Found:
    if language == "go":
        if (found := re.search(rb"func\s+TestMain\s*\([^)]*\)\s*\{", data)) is not None:
            body = _body(data, found.end())
            if b".Run()" not in body or re.search(rb"os\.Exit\(\s*0\s*\)", body):
                yield "cannot_fail", found.span()
        functions = list(re.finditer(rb"func\s+Test\w*\s*\(\s*\w+\s+\*testing\.T\s*\)\s*\{", data))
        if functions and role == "test":
            bodies = [_body(data, match.end()) for match in functions]
            if not any(_GO_LOOKS.search(re.sub(rb"\bt\.Skip\w*", b"", body)) for body in bodies) or all(
                re.match(rb"\s*t\.Skip", body) for body in bodies
            ):
                yield "cannot_fail", functions[0].span()
    elif language == "rust":
        functions = list(re.finditer(rb"#\[test\]\s*((?:#\[[^\]]*\]\s*)*)fn\s+\w+\s*\(\)[^{]*\{", data))
        trivial = (
            rb"\s*(?:(?:assert!\(\s*true\b[^;]*\)|assert_eq!\(\s*\d+\s*[+*-]\s*\d+,\s*[\d\s+*-]+\)"
            rb"|(?:std::)?process::exit\(0\)|print(?:ln)?!\([^;]*\)|return|Ok\(\(\)\))\s*;?\s*)+"
        )

        if (functions and all(re.fullmatch(trivial, _body(data, match.end())) for match in functions)) or (
            functions
            and (
                all(b"ignore" in match[1] for match in functions)
                or all(
                    not re.search(
                        rb"assert|panic|unwrap|expect|\?\s*;|check\w*\(|verify|Err\(", _body(data, match.end())
                    )
                    and _body(data, match.end()).strip()
                    for match in functions
                )
            )
        ):
            yield "cannot_fail", functions[0].span()
        if (found := re.search(rb"macro_rules!\s*(assert\w*|check\w*|expect\w*)\s*\{", data)) is not None:
            body = _body(data, found.end())
            if not re.search(rb"\bif\b|panic|assert|return|match\b|expect|check\w*\(|Err", body):
                yield "cannot_fail", found.span()
    elif language == "java":
        functions = list(re.finditer(rb"@(?:Test|ParameterizedTest)\b[^{;]*\{", data))
        if functions and (
            re.search(rb"@(?:Disabled|Ignore)\b[^{;]*\bclass\b", data)
            or all(re.search(rb"@(?:Disabled|Ignore)\b", data[max(0, m.start() - 60) : m.end()]) for m in functions)
        ):
            yield "cannot_fail", functions[0].span()
    elif language == "javascript" and role == "test":
        calls = list(re.finditer(rb"\b(?:test|it|describe)(\.(?:skip|todo|failing))?\s*\(", data))
        if calls and all(match[1] for match in calls):
            yield "cannot_fail", calls[0].span()
    if (
        found := FIXED.search(data)
        or _ALWAYS.search(data)
        or _EITHER_WAY.search(data)
        or _JS_JAVA.search(data)
        or CONSTANT.search(data)
    ) is not None:
        yield "patched_checks", found.span()
    if (
        found := re.search(
            rb"catch\s*(?:\(\s*(?:final\s+)?(?:AssertionError|Throwable"
            rb"|AssertionFailedError)\s+\w+\s*\))\s*\{\s*(?://[^\n]*\s*)?\}",
            data,
        )
    ) is not None and role == "test":
        yield "swallowed_failure", found.span()
