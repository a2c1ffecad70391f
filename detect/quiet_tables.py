"""What code of each language may have in it and be quiet (`detect.quiet`).

Wherever there is an end to such a list, it is one of what is known to be harmless: includes, imports, members of `os`
and `sys`, ways to open a file. Beside these stand words and forms that no quiet code has; all that can open a file
(`detect.opening`) is looked for as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from detect import quiet_c, quiet_go, quiet_java, quiet_rust
from detect.opening import Way, ways
from detect.opening_words import REACHING


class Dialect(NamedTuple):
    tokens: re.Pattern[bytes]
    """Comments, literals, code with quotes in it, and quotes that begin none of these."""
    free: dict[bytes, bytes]
    """Literals that say nothing else than what they are for, and what is left of them in the code."""
    denied: frozenset[bytes]
    """Words that no quiet code has."""
    says: re.Pattern[bytes]
    """What no literal has."""
    remarks: re.Pattern[bytes]
    """What no comment has: what compilers or readers look for there."""
    allowed: re.Pattern[bytes]
    """Imports, and what looks as if it opened something: left out before the code is looked at."""
    telling: tuple[Way, ...]
    """What no quiet code has besides, the allowed left out."""
    reading: re.Pattern[bytes]
    """Ways to open a file to read it, by a name that is a variable's value."""
    spelling: frozenset[bytes]
    """Words of code that may make the letters of a name: with one of them, quiet code opens nothing."""
    says_letters: re.Pattern[bytes]
    """What in a literal is such a letter, or makes one."""
    letters: tuple[Way, ...]
    """Other ways to make them."""
    imports: re.Pattern[str]
    """Names that it may import."""
    names_are_given: Callable[[bytes], bool] | None = None
    """Whether code opens files only by names that it is given, where that can be told from the code."""


def _words(text: str) -> frozenset[bytes]:
    return frozenset(word.encode() for word in text.split())


def _one_of(*ways: str) -> re.Pattern[bytes]:
    """Patterns that begin with a known letter, every one: so they are looked for fast."""
    return re.compile("|".join(ways).encode(), re.S)


_NOTHING = re.compile(rb"(?!)")
_NAME = r"[&*]?[A-Za-z_][\w.]*+(?:->\w+)*+(?:\[[\w+ -]*\])?"
"""What a file is called that is opened: a variable, a field, an item of a list."""
_C_NAME = r"[A-Za-z_]\w*+(?:\[[\w+ -]*\])?"
_SCRIPT = r"#!"
_SLASH = r"/|\\(?:0*57(?![0-7])|x2[fF]|[uU]\{?0*2[fF]|N)"
"""A way out of the folder."""
_END = rb"(?:_?[uUlLi]\w*)?(?![\w.])"
_SLASH_NUMBER = (
    ("47", rb"(?<![\w.])47" + _END),
    ("2f 2F", rb"(?<![\w.])0[xX][0_]*2[fF]" + _END),
    ("57", rb"(?<![\w.])0[oO]?[0_]*57" + _END),
    ("1111", rb"(?<![\w.])0[bB][0_]*10_?1111" + _END),
)
"""The number of `/`."""
_SUM = ("+", rb"\d\s*\+\s*\d")
_READING = {text.encode(): b'"r"' for text in ('"r"', '"rb"', '"rt"', "'r'", "'rb'", "'rt'")}
"""Ways to say that a file is read."""
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_DOUBLE = r"\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\""
_QUOTE = r"/\*|\"|'|`"
"""What begins a comment or literal that does not end."""

_HEADERS = (
    "assert|ctype|err|errno|fcntl|float|getopt|inttypes|iso646|limits|locale|math|setjmp|signal|stdarg|stdbool|stddef"
    "|stdint|stdio|stdlib|stdnoreturn|string|strings|sys/stat|sys/types|time|unistd|wchar|wctype"
)
_C = Dialect(
    tokens=_one_of(
        _COMMENT, _DOUBLE, r"'(?<![0-9A-Za-z_]')(?:[^'\\\n]|\\(?:[0-7]{1,3}|x[0-9a-fA-F]{1,4}|[^\n]))'", _QUOTE
    ),
    free={**_READING, b'"-"': b'"-"'},
    denied=REACHING["c"] | quiet_c.DENIED,
    says=_one_of(_SCRIPT, r"\?\?", r"\\\n"),
    remarks=_one_of(r"#[ \t]*include", r"\?\?/", r"\\[ \t]*\n"),
    allowed=_one_of(
        rf"#[ \t]*include[ \t]*<(?:{_HEADERS})\.h>(?=[ \t]*\n)",
    ),
    telling=ways(
        '?? R"" $ include',
        ("_", rb"_(?<!\w_)(?!_func__\b|_int128\b|_?exit\b|[A-Z][A-Z0-9_]*\b|(?:Bool|Exit|Noreturn|Static_assert)\b)\w"),
        ("\\", rb"\\(?:(?!\n)|(?<![ \t;{}(),]\\)|\n[ \t]*#)"),
        ("#", rb"#(?:(?<!^#)(?<!^ #)(?<!^  #)(?<!^    #)|[ \t]*\\)"),
        ("(*", rb"\(\s*\*[^()]*(?:\([^()]*\)\s*)?\)\s*\("),
        ("typedef", rb"typedef\b[^;{]*\("),
        ("goto", rb"goto\s*\*"),
        ("main", rb"main(?<!\wmain)\s*[\[=]"),
    ),
    reading=_one_of(
        rf"fopen(?<!\wfopen)\s*\(\s*{_C_NAME}\s*,\s*\"r\"\s*\)",
        rf"freopen(?<!\wfreopen)\s*\(\s*{_C_NAME}\s*,\s*\"r\"\s*,\s*stdin\s*\)",
        rf"open(?<![\w.>]open)\s*\(\s*{_C_NAME}\s*,\s*O_RDONLY\s*\)",
        rf"stat(?:(?<!\wstat)|(?<=\W[fl]stat))\s*\(\s*{_C_NAME}\s*,\s*&?\w+\s*\)",
        r"struct\s+stat\s+\w+\s*;",
    ),
    spelling=_words("strftime"),
    says_letters=_one_of(_SLASH, r"%[-+ #0-9.*$hljztL]*n"),
    letters=ways("", *_SLASH_NUMBER),
    names_are_given=quiet_c.names_are_given,
    imports=re.compile(rf"(?:{_HEADERS})\.h$"),
)

_GO_IMPORTS = [
    *("bufio", "bytes", "container/heap", "container/list", "errors", "flag", "fmt", "io", "math", "math/big"),
    *("math/bits", "os", "regexp", "sort", "strconv", "strings", "sync", "text/tabwriter", "time", "unicode"),
    "unicode/utf8",
]
_GO = Dialect(
    tokens=_one_of(_COMMENT, _DOUBLE, r"`[^`]*`|'(?:[^'\\\n]|\\(?:[0-7]{3}|x\w\w|u\w{4}|U\w{8}|[^\n]))'", _QUOTE),
    free={f'"{name}"'.encode(): f'"{name or "-"}"'.encode() for name in (*_GO_IMPORTS, "-", "")},
    denied=_words("Chdir Chmod Chown Fd LoadLocation ReadDir Readdir Readdirnames Setenv SyscallConn Truncate WriteAt"),
    says=_one_of(_SCRIPT),
    remarks=_one_of(r"go:", r"\+build", r"#cgo", r"#[ \t]*include", r"export "),
    allowed=_one_of(
        r"import[ \t]+(?:\"\w[\w/]*\"|\(\s*(?:\"\w[\w/]*\"\s*)*\))(?=[ \t]*\n)",
        r"os(?<!\wos)\.(?:File|FileInfo|PathError|IsNotExist|IsPermission|ErrNotExist|ErrPermission)\b",
    ),
    telling=ways(
        "",
        ("import", rb"\bimport\b"),
        ("os", rb"os(?<!\wos)(?!\w|\.(?:Args|Exit|Stdin|Stdout|Stderr|Open|ReadFile|Stat)\b)"),
    ),
    reading=_one_of(
        r"os(?<!\wos)\.(?:Open|ReadFile|Stat)\("
        r"(?:[A-Za-z_]\w*+(?:\[[\w+ -]*\])?|os\.Args\[[\w+ -]*\]|flag\.Arg\(\w+\))\)"
    ),
    spelling=frozenset(),
    says_letters=_one_of(_SLASH, r"%[-+ #0-9.*]*[cUq]"),
    letters=ways("[...]", ("{", rb"\[\d*\]\s*(?:byte|rune|u?int\d*)\s*\{\s*[^}\s]"), *_SLASH_NUMBER, _SUM),
    names_are_given=quiet_go.names_are_given,
    imports=re.compile(rf"(?:{'|'.join(_GO_IMPORTS)})$"),
)

_RAW = r"(?:\"[^\"]*\"|#\".*?\"#(?!#)|##\".*?\"##(?!#))"
_RUST_NAME = _NAME + r"(?:(?:(?<=\.as_str)|(?<=\.clone)|(?<=\.as_ref))\(\))?"
_RUST = Dialect(
    tokens=_one_of(
        _COMMENT,
        r"\"[^\"\\]*(?:\\.[^\"\\]*)*\"",
        rf"r(?:(?<!\wr)|(?<=\Wbr))(?:{_RAW}|#*\")",
        # letters and figures come after `/`, and so do those between two of them
        r"'[0-9A-Za-z]'\.\.=?b?'[0-9A-Za-z]'",
        r"'(?:[^'\\\n]|\\(?:x\w\w|u\{\w+\}|[^\n]))'|'[a-z_]\w*\b(?!')",
        _QUOTE,
    ),
    free={},
    denied=REACHING["rust"]
    | _words(
        "asm canonicalize current_dir current_exe from_raw_fd global_asm home_dir include_bytes include_str link_name"
        " link_section naked no_mangle path read_dir read_link remove_var set_current_dir set_len set_modified"
        " set_permissions set_times set_var split_paths temp_dir transmute"
    ),
    says=_one_of(_SCRIPT, r"cargo:", r"rustc-"),
    remarks=_one_of(r"```", r"~~~", r"//[/!](?: {5}|\t)"),
    allowed=_one_of(
        r"use std::fs(?:::File|::\{self, ?File\}|::\{File\})?;",
        r"fs(?<=[{, ]fs)(?:::File)?(?=[,}])",
        r"File(?<=BufReader<File)(?=>[,;)>]|> [={])",
        r"File(?:(?<=: File)|(?<=&File)|(?<=&mut File))(?=[,;)])",
    ),
    telling=ways(
        "",
        ("#", rb"#(?!!?\[(?:derive\(|allow\(|inline\b|test\]|cfg\(test\)|must_use\]|should_panic\b|default\]))"),
        ('cr""', rb"\bcr\"\""),
        ("use", rb"use(?<!\wuse)\s+(?!(?:std|core|alloc|crate|self|super)::|std::?[;{]|[A-Z]\w*::)"),
        ("type", rb"\btype\s+\w+\s*=\s*(?:std|fs|process)\b"),
    ),
    reading=_one_of(
        rf"File(?:(?<!\wFile)|(?<=fs::File))::open\(\s*{_RUST_NAME}\s*\)",
        rf"fs(?<!\wfs)::(?:read|read_to_string)\(\s*{_RUST_NAME}\s*\)",
    ),
    spelling=_words("join_paths MAIN_SEPARATOR MAIN_SEPARATOR_STR"),
    says_letters=_one_of(_SLASH, r"\\[uU]\{[0_]*2_*[fF]", r":[^{}\"]*\?\}"),
    letters=ways("", ("from_utf8", rb"[=(&!,]\s*\[\s*\w*\"*\w*\s*[+,]"), *_SLASH_NUMBER),
    imports=re.compile(""),
    names_are_given=quiet_rust.names_are_given,
)

_PACKAGES = (
    r"java\.(?:util(?:\.(?:function|stream|regex|concurrent(?:\.(?:atomic|locks))?))?|math|text|nio\.charset|io)"
)
_TO = rb"(?:System\.(?:out|err)|\(\)|new (?:StringWriter|ByteArrayOutputStream)\(\))"
"""Where a program's own texts go."""
_JAVA = Dialect(
    tokens=_one_of(
        _COMMENT,
        r"\"\"\"(?:[^\\]|\\.)*?\"\"\"",
        _DOUBLE,
        r"'(?:[^'\\\n]|\\(?:[0-7]{1,3}|[^\n]))'",
        _QUOTE,
    ),
    free={},
    denied=REACHING["java"]
    | _words(
        "awt ClassLoader com Compiler Console createNewFile defineClass deleteOnExit Desktop FileHandler Formatter"
        " getChannel getClassLoader getContextClassLoader getDeclaredField getDeclaredMethod getFD getMethod getModule"
        " getPackage getPackages getProperties getProperty getProtectionDomain getResource getResourceAsStream"
        " HttpClient HttpURLConnection InetAddress InetSocketAddress JarFile javax jdk listFiles LogManager Lookup"
        " MethodHandle MethodHandles mkdir mkdirs Module ModuleLayer Native native netscape newInstance"
        " ObjectInputStream org Preferences prefs Proxy renameTo ResourceBundle rmi Robot ServerSocket ServiceLoader"
        " setContextClassLoader Socket SocketChannel sql StackWalker sun swing Unsafe VarHandle XMLDecoder ZipFile"
    ),
    says=_one_of(_SCRIPT, r"\\(?:u|\{)"),
    remarks=_one_of(r"\\u"),
    allowed=_one_of(
        rf"import[ \t]+(?:static[ \t]+)?(?:{_PACKAGES})\.(?:\*|(?!File|RandomAccess)[A-Z]\w*(?:\.\w+)?);",
        r"import[ \t]+java\.io\.File(?:Descriptor|InputStream|OutputStream|Reader|NotFoundException)?;",
        r"import[ \t]+java\.nio\.file\.(?:\*|Files|Paths?|NoSuchFileException);",
        r"nio\.charset\b",
        r"new\s+File(?:Input|Output)Stream\(FileDescriptor\.(?:in|out|err)\)",
        r"FileNotFoundException\b",
        r"NoSuchFileException\b",
    ),
    telling=ways(
        "import",
        (
            "Print",
            rb"\bPrint(?:Writer|Stream)\b(?!\s+\w+\s*[=;,):(]|>|;|\s*\((?:new (?:Buffered(?:Writer|OutputStream)"
            rb"|OutputStreamWriter)\()*" + _TO + rb"(?:(?:,[\w. <\"]*)*\))*\s*[,;)])",
        ),
        (
            "java",
            rb"\bjava\b(?!\.(?:util\.(?:(?:function|stream|regex|concurrent(?:\.(?:atomic|locks))?)\.)?[A-Z]"
            rb"|(?:io|math|text)\.[A-Z]|\(\)\.[A-Z]|lang\.(?:Math|String|Integer|Long|Character|Object)\b))",
        ),
        (
            "System",
            rb"\bSystem\b(?!\s*\.\s*(?:in|out|err|exit|arraycopy|lineSeparator|currentTimeMillis|nanoTime"
            rb"|identityHashCode|getenv)\b)",
        ),
        ("class", rb"\.\s*class\b(?!,|\)(?!\s*\.))"),
    ),
    reading=quiet_java.READING,
    spelling=frozenset(),
    says_letters=_one_of(_SLASH, r"%[-+ #0-9.$]*[cC]"),
    letters=ways("", ("]", rb"\]\s*+\w*+\s*+(?:=\s*+)?\{\s*+[^}\s]"), *_SLASH_NUMBER, _SUM),
    imports=re.compile(rf"(?:{_PACKAGES})\.|java\.nio\.file\."),
    names_are_given=quiet_java.names_are_given,
)

_MODULES = (
    r"__future__|abc|argparse|array|base64|binascii|bisect|collections\.abc|collections|contextlib|copy|dataclasses|datetime"
    r"|decimal|enum|fractions|functools|getopt|hashlib|heapq|itertools|math|operator|os|random|re|signal|stat|statistics"
    r"|string|struct|sys|textwrap|time|typing|unicodedata|zlib"
)
_OS = (
    r"linesep|isatty|strerror|EX_OK|SEEK_SET|SEEK_CUR|SEEK_END|fstat|fsdecode|fsencode"
    r"|path\.(?:basename|splitext|exists|isfile|isdir|getsize)"
)
_SYS = (
    r"argv|stdin|stdout|stderr|exit|maxsize|maxunicode|byteorder|setrecursionlimit|getrecursionlimit|intern|float_info"
    r"|version_info|set_int_max_str_digits|exc_info"
)
_IMPORTED = r"(?!_|(?:os|sys|main)\b)\w++"
"""No module that the one imported from only holds, and nothing that reads files named on the command line."""
_PYTHON = Dialect(
    tokens=_one_of(
        r"\#[^\n]*",
        r"\"\"\"(?:[^\\]|\\.)*?\"\"\"",
        r"'''(?:[^\\]|\\.)*?'''",
        _DOUBLE,
        r"'[^'\\\n]*(?:\\.[^'\\\n]*)*'",
        r"\"|'|\\",
    ),
    free=_READING,
    denied=REACHING["python"]
    | _words(
        "attrgetter bltns breakpoint builtins codecs copyreg ctypes delattr detach Formatter ForwardRef"
        " get_field get_type_hints importlib inspect io linecache make_dataclass marshal methodcaller"
        " open_code pickle posix raw stdlib_re subprocess threading tokenize types vformat warnings"
    ),
    says=_one_of(_SCRIPT, r"__(?<!__main__)(?!main__)"),
    remarks=_one_of(r"#!(?![^\n]*\bpython)"),
    allowed=_one_of(
        rf"import(?<![^ \t\n]import)(?<![\w)][ \t]import)[ \t]+(?:{_MODULES})(?:[ \t]*,[ \t]*(?:{_MODULES}))*"
        r"(?=[ \t]*\n)",
        rf"from(?<![^ \t\n]from)[ \t]+(?!(?:sys|os)\b)(?:{_MODULES})[ \t]+import[ \t]+"
        rf"(?:{_IMPORTED}(?:[ \t]*,[ \t]*{_IMPORTED})*|\(\s*{_IMPORTED}(?:\s*,\s*{_IMPORTED})*\s*,?\s*\))(?=[ \t]*\n)",
        rf"from(?<![^ \t\n]from)[ \t]+sys[ \t]+import[ \t]+(?:{_SYS})(?:[ \t]*,[ \t]*(?:{_SYS}))*(?=[ \t]*\n)",
        r"compile(?<=\bre\.compile)(?=\()",
        r"os(?<![\w.]os)\.dup2\(\s*os\.open\(os\.devnull, os\.O_WRONLY\), (?:sys\.stdout\.fileno\(\)|[12])\)",
        rf"os(?<![\w.]os)\.(?:{_OS})\b",
        rf"sys(?<![\w.]sys)\.(?:{_SYS})\b",
        r"help(?<!\whelp)(?==(?!=))",
        r";(?=[ \t]*\w)",
    ),
    telling=ways(
        "",
        *((name, rb"\b%b\b" % name.encode()) for name in ("import", "os", "sys")),
        ("base64", rb"base64\s*\.\s*main\b"),
        ("._", rb"(?<!\bself)(?<!\bcls)\._"),
    ),
    reading=_one_of(
        rf"open(?<![\w.]open)\(\s*{_NAME}\s*(?:,\s*(?:mode\s*=\s*)?\"r\")?"
        r"(?:,\s*(?:encoding|errors|newline)\s*=\s*(?:\"\"|None))*\s*\)"
    ),
    spelling=_words(
        "a2b_base64 a2b_hex a2b_qp a2b_uu a85decode b16decode b32decode b32hexdecode b64decode b85decode chr"
        " decodebytes decompress fromhex lookup maketrans pack printable punctuation standard_b64decode"
        " strftime to_bytes tobytes translate unhexlify unpack urlsafe_b64decode"
    ),
    says_letters=_one_of(_SLASH, r"%[-+ #0-9.*]*c", r":[-+ #0-9.<>=^_,]*c\}"),
    letters=ways("", ("bytes", rb"\bbytes\s*\(\s*[^)\s]"), ("bytearray", rb"\bbytearray\b(?!\(\))")),
    imports=re.compile(rf"(?:{_MODULES})(?:$|\.)"),
)
DIALECTS = {"c": _C, "go": _GO, "rust": _RUST, "java": _JAVA, "python": _PYTHON}
