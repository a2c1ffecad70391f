"""What code of each language may have in it and be quiet (`detect.quiet`).

Wherever there is an end to such a list, it is one of what is known to be harmless: includes, imports, members of `os`
and `sys`, ways to open a file. Beside these stand words and forms that no quiet code has; all that can open a file
(`detect.opening`) is looked for as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from detect import quiet_c, quiet_go, quiet_java, quiet_rust
from detect.opening import Way, ways
from detect.opening_words import REACHING, names


class Letters(NamedTuple):
    """What letters may come from that stand nowhere."""

    words: frozenset[bytes]
    """Words of code."""
    says: tuple[Way, ...]
    """What a literal says."""
    ways: tuple[Way, ...]
    """Other code."""


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
    sources: Letters | None = None
    """More of that: no code has it that does open files."""
    asking: tuple[Way, ...] = ()
    """What asks for files by name, besides what opens them."""
    rare: Mapping[bytes, tuple[re.Pattern[bytes], ...]] = MappingProxyType({})
    """Words, and how no quiet code uses them."""
    turning: tuple[Way, ...] = ()
    """What may make another text of one that stands in the code, of the same letters in this order or backwards."""
    imported: re.Pattern[bytes] | None = None
    """An import, whose group is the names of modules that the code has then."""
    members: Mapping[bytes, tuple[re.Pattern[bytes], ...]] = MappingProxyType({})
    """By module, what no quiet code does that has imported it."""


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
    spelling=names("strftime"),
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
    denied=names("Chdir Chmod Chown Fd LoadLocation ReadDir Readdir Readdirnames Setenv SyscallConn Truncate WriteAt"),
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
    | names(
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
    spelling=names("join_paths MAIN_SEPARATOR MAIN_SEPARATOR_STR"),
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
    | names(
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

_MEMBERS = {
    "__future__": "annotations|division|print_function|generator_stop",
    "abc": "ABC|abstractmethod",
    "argparse": "",
    "array": "array",
    "base64": r"(?:(?:standard_|urlsafe_)?b64|b16|b32|b32hex|b85|a85)(?:en|de)code|(?:en|de)codebytes",
    "binascii": r"[ab]2[ab]_\w+|hexlify|unhexlify|crc32|crc_hqx|Error|Incomplete",
    "bisect": "bisect|bisect_left|bisect_right|insort|insort_left|insort_right",
    "collections": r"abc\.\w+|ChainMap|Counter|OrderedDict|defaultdict|deque|namedtuple",
    "collections.abc": (
        "Callable|Collection|Container|Generator|Hashable|Iterable|Iterator|Mapping|MutableMapping|MutableSequence"
        "|MutableSet|Reversible|Sequence|Set|Sized"
    ),
    "contextlib": "ExitStack|closing|contextmanager|nullcontext|suppress",
    "copy": "copy|deepcopy",
    "dataclasses": "FrozenInstanceError|asdict|astuple|dataclass|field|replace",
    "datetime": "UTC|date|datetime|time|timedelta|timezone",
    "decimal": (
        r"Context|Decimal|DecimalException|DivisionByZero|Inexact|InvalidOperation|Overflow|ROUND_\w+|Rounded"
        "|Underflow|getcontext|localcontext|setcontext"
    ),
    "fractions": "Fraction",
    "functools": "cache|cached_property|cmp_to_key|lru_cache|partial|reduce|total_ordering",
    "getopt": "GetoptError|error|getopt|gnu_getopt",
    "hashlib": r"blake2b|blake2s|md5|new|sha1|sha224|sha256|sha384|sha512|sha3_\d+|shake_\d+",
    "heapq": "heapify|heappop|heappush|heappushpop|heapreplace|merge|nlargest|nsmallest",
    "itertools": (
        "accumulate|chain|combinations|combinations_with_replacement|compress|count|cycle|dropwhile|filterfalse"
        "|groupby|islice|pairwise|permutations|product|repeat|starmap|takewhile|tee|zip_longest"
    ),
    "math": r"[a-z]\w*",
    "operator": (
        "abs|add|and_|concat|contains|countOf|eq|floordiv|ge|getitem|gt|index|indexOf|inv|invert|itemgetter|le|lshift"
        "|lt|mod|mul|ne|neg|not_|or_|pos|pow|rshift|sub|truediv|truth|xor"
    ),
    "random": (
        "Random|choice|choices|expovariate|gauss|getrandbits|normalvariate|randbytes|randint|random|randrange|sample"
        "|seed|shuffle|uniform"
    ),
    "re": (
        "A|ASCII|DOTALL|I|IGNORECASE|M|MULTILINE|Match|Pattern|S|U|UNICODE|VERBOSE|X|compile|error|escape|findall"
        "|finditer|fullmatch|match|search|split|sub|subn"
    ),
    "signal": r"SIG[A-Z]+|SIG_DFL|SIG_IGN|signal",
    "stat": r"S_\w+|ST_\w+|filemode",
    "statistics": (
        "fmean|geometric_mean|harmonic_mean|mean|median|median_high|median_low|mode|multimode|pstdev|pvariance"
        "|quantiles|stdev|variance"
    ),
    "string": (
        "ascii_letters|ascii_lowercase|ascii_uppercase|capwords|digits|hexdigits|octdigits|printable|punctuation"
        "|whitespace"
    ),
    "struct": "Struct|calcsize|error|iter_unpack|pack|pack_into|unpack|unpack_from",
    "sys": (
        "argv|byteorder|exc_info|exit|float_info|getrecursionlimit|intern|maxsize|maxunicode|set_int_max_str_digits"
        "|setrecursionlimit|stderr|stdin|stdout|version_info"
    ),
    "textwrap": "TextWrapper|dedent|fill|indent|shorten|wrap",
    "time": (
        "asctime|ctime|gmtime|localtime|mktime|monotonic|monotonic_ns|perf_counter|perf_counter_ns|process_time|sleep"
        "|strftime|strptime|time|time_ns"
    ),
    "typing": (
        "Any|AnyStr|BinaryIO|Callable|ClassVar|DefaultDict|Deque|Dict|Final|FrozenSet|Generator|IO|Iterable|Iterator"
        "|List|Literal|Mapping|Match|MutableMapping|MutableSequence|NamedTuple|NoReturn|Optional|Pattern|Sequence|Set"
        "|TextIO|Tuple|TypeAlias|TypeVar|Union|cast"
    ),
    "unicodedata": (
        "bidirectional|category|combining|decimal|decomposition|digit|east_asian_width|is_normalized|lookup|mirrored"
        "|name|normalize|numeric"
    ),
    "zlib": r"DEF_\w+|MAX_WBITS|Z_\w+|adler32|compress|compressobj|crc32|decompress|decompressobj|error",
}
"""What quiet code uses of modules: nothing that finds an attribute by a text, makes a class or reads a file."""
_MODULES = "|".join([*(re.escape(name) for name in sorted(_MEMBERS, reverse=True)), "os"])
_OS = r"linesep|isatty|strerror|EX_OK|SEEK_SET|SEEK_CUR|SEEK_END|fstat|fsdecode|fsencode|path\.(?:basename|splitext)"
_PYTHON_NAME = r"[A-Za-z_][\w.]*+(?:\[[\w+ -]*\])?"
_UTF = r"\"utf\""
"""What is left in the code of the name of a usual encoding."""


def _members(module: str, names: str) -> re.Pattern[bytes]:
    """A module that is a value, or of which something is used that is not known."""
    return re.compile(rf"{module}(?!\w)(?<![\w.]{module})(?!\.(?:{names})(?!\w))".encode())


_FROM = "|".join(
    rf"{re.escape(module)}[ \t]+import[ \t]+(?:{one}(?:[ \t]*,[ \t]*{one})*|\(\s*{one}(?:\s*,\s*{one})*\s*,?\s*\))"
    for module, names in _MEMBERS.items()
    if names
    for one in [rf"(?:{names})(?!\w)"]
)
_PARSER = (
    r"(?!\.(?:ArgumentParser\(\s*(?:\w+\s*=\s*[\w.\"][\w.\"\s]*+,?\s*)*\)|(?:ArgumentTypeError|OPTIONAL|ONE_OR_MORE"
    r"|REMAINDER|RawDescriptionHelpFormatter|RawTextHelpFormatter|SUPPRESS|ZERO_OR_MORE)(?!\w)))"
)
_PYTHON = Dialect(
    tokens=_one_of(
        r"\#[^\n]*",
        r"\"\"\"(?:[^\\]|\\.)*?\"\"\"",
        r"\'\'\'(?:[^\\]|\\.)*?\'\'\'",
        _DOUBLE,
        r"'[^'\\\n]*(?:\\.[^'\\\n]*)*'",
        r"\"|'|\\",
    ),
    free=_READING
    | {
        f"{quote}{name}{quote}".encode(): b'"utf"'
        for quote in "\"'"
        for name in ("utf-8", "utf8", "UTF-8", "ascii", "latin-1", "latin1", "iso-8859-1")
    },
    denied=(REACHING["python"] - {b"vars", b"types"})
    | names(
        "ABCMeta _evaluate ag_code asyncio atexit attrgetter bltns breakpoint builtins codecs convert_arg_line_to_args"
        " copyreg copyright cr_code credits ctypes dbm delattr detach doctest faulthandler fcntl fileinput Formatter"
        " ForwardRef fromfile_prefix_chars ftplib get_field get_type_hints http imaplib importlib inspect io license"
        " linecache logging make_dataclass marshal methodcaller mmap multiprocessing open_code parser_class pathlib"
        " pickle pkgutil poplib posix pty pydoc pytest resource runpy setattr shelve shutil"
        " singledispatch singledispatchmethod site smtplib socket socketserver sqlite3 ssl stdlib_re subprocess"
        " sysconfig tarfile tempfile termios threading tokenize traceback unittest update_wrapper urllib urlopen"
        " vformat warnings weakref webbrowser wraps xmlrpc zipfile zipimport"
    ),
    says=_one_of(
        _SCRIPT,
        r"__(?<!__main__)(?!main__)",
        r"\\(?:x[46]\w|x[57][0-9a-eA-E]|1[0-6][0-7]|17[0-6]|u00[4-7]|U000000[4-7])",
    ),
    remarks=_one_of(r"#!(?![^\n]*\bpython)"),
    allowed=_one_of(
        rf"import(?<![^ \t\n]import)(?<![\w)][ \t]import)[ \t]+(?:{_MODULES})(?:[ \t]*,[ \t]*(?:{_MODULES}))*"
        r"(?=[ \t]*\n)",
        rf"from(?<![^ \t\n]from)[ \t]+(?:{_FROM})(?=[ \t]*\n)",
        r"re(?<![\w.]re)\.compile(?=\()",
        r"os(?<![\w.]os)\.dup2\(\s*os\.open\(os\.devnull, os\.O_WRONLY\), (?:sys\.stdout\.fileno\(\)|[12])\)",
        rf"os(?<![\w.]os)\.(?:{_OS})\b",
        rf"sys(?<![\w.]sys)\.(?:{_MEMBERS['sys']})\b",
        r"help(?<!\whelp)(?==(?!=))",
        r";(?=[ \t]*\w)",
    ),
    telling=ways(
        "",
        *((name, rb"\b%b\b" % name.encode()) for name in ("import", "sys")),
        ("os", rb"os(?<!\wos)(?!\w)(?!\.path\.(?:exists|isfile|isdir|getsize)\()"),
        ("._", rb"(?<!\bself)(?<!\bcls)\._(?!_)"),
        # a text of which something else is made than it says
        (
            '""',
            rb"\"\"\)?(?:\[[^\]\n]{0,80}:[^\]\n]{0,80}:|\.(?:replace|swapcase|[lr]?strip|lower|upper|casefold|title"
            rb"|capitalize|translate|remove\w+)\b)",
        ),
        ("}[", rb"\}\[\d"),
    ),
    rare={
        # a name of one's own, no member of a module or a file, and no function of the language
        b"raw": (re.compile(rb"\.\s*raw\b"),),
        b"types": (re.compile(rb"\.\s*types\b"),),
        b"vars": (re.compile(rb"vars(?<!\bself\.vars)(?!\w)(?<!\wvars)"),),
        b"__doc__": (re.compile(rb"\.\s*__doc__"),),
        b"__init__": (re.compile(rb"__init__(?<!def __init__)(?<!super\(\)\.__init__)(?<!Exception\.__init__)"),),
        # an error has the value whose attribute was missing
        b"obj": (re.compile(rb"\.\s*obj\b|[(,]\s*obj\s*="),),
        b"type": (
            re.compile(
                rb"type(?<![\w.]type)(?!\w)(?!\s*=(?!=))(?!\([\w.]+\)(?:\.__name__\b|\s*(?:(?:is|in|not)\b|[=!]=)))"
                rb"(?!(?:(?<=is type)|(?<=not type)|(?<=[=!]= type))\([\w.]+\)(?!\s*[(.\[]))"
            ),
        ),
        # what a field is called becomes code
        b"dataclass": (re.compile(rb"\A(?=[\s\S]*\bfield\b)(?=[\s\S]*\.\s*name\b)"),),
        # letters of texts and numbers that stand in the code
        b"chr": (re.compile(rb"for\s[\w, ]{1,40}\bin\s*\(*\"\""), re.compile(rb",\s*\d+\s*,\s*\d+\s*,\s*\d")),
        b"bytes": (re.compile(rb"bytes(?<!\wbytes)(?:\.\s*fromhex)?\s*\(\s*[\[(]*(?:\"|\d+\s*,)"),),
        **{
            name: (re.compile(rb"%b\(\s*\"" % name),)
            for name in (b"a85decode", b"b16decode", b"b32decode", b"b64decode", b"b85decode", b"unhexlify")
        },
    },
    reading=_one_of(
        rf"open(?<![\w.]open)\(\s*{_PYTHON_NAME}\s*(?:,\s*(?:mode\s*=\s*)?\"r\")?"
        rf"(?:,\s*(?:encoding\s*=\s*(?:{_UTF}|None)|(?:errors|newline)\s*=\s*(?:\"\"|None)))*\s*,?\s*\)",
        rf"os(?<![\w.]os)\.path\.(?:exists|isfile|isdir|getsize)\(\s*{_PYTHON_NAME}\s*\)",
    ),
    spelling=names(
        "a2b_base64 a2b_hex a2b_qp a2b_uu a85decode b16decode b32decode b32hexdecode b64decode b85decode chr"
        " decodebytes decompress fromhex lookup maketrans pack printable punctuation standard_b64decode"
        " strftime to_bytes tobytes translate unhexlify unpack urlsafe_b64decode"
    ),
    says_letters=_one_of(_SLASH, r"%[-+ #0-9.*]*c", r":[-+ #0-9.<>=^_,]*c\}"),
    letters=ways(
        "", ("bytes", rb"bytes(?<!\wbytes)\s*\(\s*[^)\s]"), ("bytearray", rb"bytearray(?<!\wbytearray)(?!\w|\(\))")
    ),
    sources=Letters(
        names("Fraction array base64 binascii bytearray datetime digest exc_info normalize randbytes zlib"),
        ways(
            "",
            ("%", rb"%(?!(?:\(\w+\))?[-+ #0-9.*]*[sdifgxXeEGour%])"),
            ("}}", rb":[^{}]{0,80}\{[^{}]{0,80}\}\}"),
        ),
        ways(
            "os.strerror sys.argv[0] sys.argv[:",
            ("format", rb"format(?:(?<!\w\wformat)(?<!\"\.format)|(?<=\"\" \"\"\.format)|_map)"),
            (
                "code",
                rb"code(?<=[ed][ne]code)(?<!fs[de][en]code)(?!\w)(?!\(\s*(?:"
                + _UTF.encode()
                + rb"(?:,\s*(?:errors\s*=\s*)?\"\")?)?\s*\))",
            ),
            ("str(", rb"str(?<!\wstr)\((?:[^()]|\([^()]*\))*,"),
            (
                "Exception ValueError TypeError",
                rb"except(?<!\wexcept)\W[^:\n]{0,80}\b(?:\w*Exception|ValueError|TypeError)\b[^:\n]{0,80}\bas\b",
            ),
        ),
    ),
    imports=re.compile(rf"(?:{_MODULES})(?:$|\.)"),
    asking=ways("os.path."),
    turning=ways(":: .swapcase( reversed re.sub translate", (".replace(", rb"\.replace\(\s*b?\"\",\s*b?\"\"\)")),
    imported=re.compile(rb"import(?<![\w)][ \t]import)[ \t]+([\w, \t]+)\n"),
    members={
        module.encode(): (_members(module, names),)
        for module, names in _MEMBERS.items()
        if "." not in module and module != "sys"
    }
    | {
        b"argparse": (
            re.compile(rf"argparse(?!\w)(?<![\w.]argparse){_PARSER}".encode()),
            re.compile(rb"parse_(?=\w*args\b)\w+(?!\(\s*(?:[\w.]+(?:\[1:\])?)?\s*\))(?!\w)"),
            re.compile(rb"\._(?!_)|dataclass"),
        )
    },
)
DIALECTS = {"c": _C, "go": _GO, "rust": _RUST, "java": _JAVA, "python": _PYTHON}
