"""What Rust code that opens files may have in it and be quiet (`detect.quiet`): nothing that makes a `/`.

Literals have none there, numbers that are known are none. What is left are other numbers, the name of the program,
what the compiler knows of the code, and texts of the library.
"""

from __future__ import annotations

import re

from detect.literals import set_of_words
from detect.opening import has_any, ways

_WORDS = frozenset(
    b"backtrace Backtrace caller catch_unwind CStr CString Cursor decode_utf16 escape_ascii from_raw_os_error"
    b" from_utf16 from_utf16_lossy from_utf8 from_utf8_lossy location Location module_path option_env Range"
    b" RangeFrom RangeInclusive set_hook stringify take_hook try_from try_into type utf8_chunks var vars"
    b" vars_os var_os VecDeque".split()
)
"""Functions, types and modules with which letters can be had that stand nowhere."""
_SOURCES = ways(
    "",
    ("as", rb"as(?<!\was)\s+(?:char\b|_(?!\w))"),
    ("char", rb"char(?<!\wchar)\s*::"),
    ("into", rb"into(?<!\winto)(?<!\"\"\.into)(?<!\.\.\d\]\.into)\b"),
    ("from", rb"from(?<!\wfrom)(?<!\WString::from)\b"),
    ("..", rb"\.\.(?:(?<=\"\"\.\.)|(?<=[\"\w)]\s\.\.)|(?<=\s\s\.\.)|=?\s*b?\"\")"),
    ("file", rb"file(?<!\wfile)\s*(?:!(?!=)|\bas\b)"),
    ("env", rb"env(?<!\wenv)\s*(?:!(?!=)|\bas\b)"),
    (
        "args",
        rb"args(?<!\wargs)(?:_os)?(?:\s*\((?!\)\s*\.\s*(?:skip\(1\)|nth\([1-9]\)))|(?<=::args)(?!\w|\s*\()"
        rb"|(?<=::args_os)(?!\w|\s*\()|(?<==\sargs)\s*;)",
    ),
)
_TEXT_OF_BYTES = frozenset(b"lines read_line read_to_string".split())
"""Ways to read bytes, whatever they come from, as text."""
_BYTES = frozenset(b"as_bytes as_slice bytes into_bytes u8".split())
_NUMBERS = re.compile(
    rb"b\"\"(?<!\wb\"\")|\[(?<![\w\])]\[)\s*\d+\w*\s*[-+*/,^|&]|push\(\s*\d|repeat(?<!\"\"\.repeat)(?<!\wrepeat)\b"
)
"""What makes bytes."""


def names_are_given(code: bytes) -> bool:
    """Whether code of blanked literals has no letters but those that it is given, and those of its literals."""
    words = set_of_words(code)
    if not words.isdisjoint(_WORDS) or has_any(_SOURCES, code):
        return False
    return words.isdisjoint(_TEXT_OF_BYTES) or (words.isdisjoint(_BYTES) and _NUMBERS.search(code) is None)
