"""What Go code calls the files that it opens (`detect.quiet`): the arguments of the program, and nothing else.

Texts of Go never change, so it is only followed, by the names of variables and without a reader, what those are given.
"""

from __future__ import annotations

import re

from detect.quiet_names import MAX_PLACES, block, last_word, parts, places, unclosed, without_brackets

_OPENED = re.compile(rb"os\.(?:Open|ReadFile|Stat)\(\s*(\w+)\s*(\[)?")
_ARGUMENTS = b"os.Args"
_OTHERS = b"flag.Args"
_ENDS = b";\n{"
_INDEX = re.compile(rb"((?:\[[^\[\]]*\])*)[ \t]*")
_TYPE = re.compile(rb"[ \t]+(?:string|\[\]string)\b[ \t]*(=(?!=))?")
_FUNCTION = re.compile(rb"\bfunc\b[^{}]*\Z")
_LITERAL = re.compile(rb"(\w+)\s*:?=\s*func\s*\Z")
_STORED = re.compile(rb":?=(?!=)|[-+*/%&|^]=|<<=|>>=|\+\+|--")
_GROUPED = re.compile(rb"[ \t]*\)[ \t)]*(?:,[^\n]*)?[^=!<>:\n]?:?=(?!=)")
_STORED_TOGETHER = re.compile(rb"(?:,[ \t]*[\w.\[\]]+[ \t]*)+:?=(?!=)")
_LEFT = re.compile(rb"[ \t]*(?:(?:if|for|switch|var|const|else|case)\b[ \t]*)*")
_RANGE = re.compile(rb"\s*range\s+")
_ONE = re.compile(rb"\s*(?:(?:os\.Args|([A-Za-z_]\w*))\s*\[[^\[\]]*\]|flag\.Arg\([^()]*\)|([A-Za-z_]\w*)|\"-\")\s*\Z")
_MANY = re.compile(rb"\s*(?:os\.Args|flag\.Args\(\)|([A-Za-z_]\w*))\s*(?:\[[^\[\]]*:[^\[\]]*\])?\s*\Z")
_LIST = re.compile(rb"\s*\[\]string\s*\{(.*)\}\s*\Z", re.S)
_EMPTY = re.compile(rb"\s*(?:nil|make\(\[\]string, 0(?:, \w+)?\)|\"-\")\s*\Z")
_APPEND = re.compile(rb"\s*append\((.*)\)\s*\Z", re.S)
_OF_LANGUAGE = (b"append", b"make", b"nil", b"flag")
_OF_FLAGS = re.compile(rb"\.(?!CommandLine\b)\w+\b(?!\(\)\[[^\]]*\]\s*=)")


def names_are_given(code: bytes) -> bool:
    """Whether files are opened only by names that are arguments of the program."""
    code = b"\n%b\n" % code
    if any([not _is_used(code, word, start) for word in _OF_LANGUAGE for start in places(code, word)]):
        return False
    return _Names(code).are_given()


def _is_used(code: bytes, word: bytes, start: int) -> bool:
    """Whether a word of the language, or a package, is not given another meaning."""
    end = start + len(word)
    if word == b"flag":
        return code[start - 1 : start] == b'"' or _OF_FLAGS.match(code, end) is not None
    if code.endswith((b"= ", b"return "), 0, start):
        return True
    if last_word(code[max(start - 40, 0) : start]) in (b"func", b"type", b"var", b"const"):
        return False
    stored = _STORED.match(code[end : end + 8].lstrip())
    return stored is None and _TYPE.match(code, end) is None


class _Names:
    """Variables that files are opened by, and lists of such, as they are found."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._opened = [(found[1], found.start()) for found in _OPENED.finditer(code)]
        self._left = [(_ARGUMENTS, True, True), (_OTHERS, True, True)]
        """Those to be looked at, whether they are lists, and whether other variables are given them."""
        self._left += [(found[1], bool(found[2]), False) for found in _OPENED.finditer(code)]
        self._looked_at: set[tuple[bytes, bool, bool]] = set()
        self._seen = 0

    def are_given(self) -> bool:
        while self._left:
            one = name, many, flows = self._left.pop()
            if one in self._looked_at or name in (b"os", b"flag"):
                continue
            self._looked_at.add(one)
            for start in places(self._code, name):
                self._seen += 1
                if self._seen > MAX_PLACES:
                    return False
                if not flows and self._is_anothers(name, start):
                    continue
                if not self._is_harmless(name, start, many=many):
                    return False
        return True

    def _is_harmless(self, name: bytes, start: int, *, many: bool) -> bool:
        """Whether a variable is given an argument at a place, or nothing."""
        code = self._code
        if code[start - 1 : start] == b".":
            return True  # a part of something else
        end = start + len(name)
        if code[end : end + 4] in (b" != ", b" == ") or (
            code[end : end + 1] == b")" and code.endswith((b"os.Open(", b"os.ReadFile("), 0, start)
        ):
            return True
        line = code.rfind(b"\n", 0, start)
        begin = max(line, *[code.rfind(sign, line, start) for sign in (b";", b"{", b"}")]) + 1
        before = code[begin:start]
        bare = before.rstrip()
        if bare.endswith(b"&") and not bare.endswith(b"&&"):
            return False
        if name == _OTHERS:
            if code[end : end + 2] != b"()":
                return False
            end += 2
        index = _INDEX.match(code, end)
        assert index is not None
        rest = code[index.end() : index.end() + 2000]
        if (not bare and rest[:2] == b",\n") or (bare.endswith(b"(") and _GROUPED.match(rest) is not None):
            return False
        opening = unclosed(before)
        if opening is not None and _FUNCTION.search(opening[0]) is not None:
            return self._is_parameter(begin, opening, many=many)
        if (declared := _TYPE.match(code, end)) is not None and not bare.endswith(b"]"):
            if declared[1] is None:
                return code[declared.end() : declared.end() + 1] not in (b",", b")")
            value = parts(code[declared.end() : declared.end() + 2000], b";\n")[0]
            return (not bare or bare.endswith((b"var", b"("))) and self._is_given(value, many=many)
        stored = _STORED.match(rest)
        together = opening is None and _STORED_TOGETHER.match(rest) is not None
        if stored is not None or together:
            return self._is_stored(before, rest, stored, together, indexed=bool(index[1]), many=many)
        return not many or (bool(index[1]) and b":" not in index[1]) or self._is_looked_through(before, bare, rest)

    def _is_anothers(self, name: bytes, start: int) -> bool:
        """Whether a parameter stands at a place whose function opens no file by it."""
        if _TYPE.match(self._code, start + len(name)) is None:
            return False
        opening = unclosed(self._code[self._code.rfind(b"\n", 0, start) : start])
        if opening is None or not opening[0].rstrip().endswith(b"func"):
            return False
        found = block(self._code, start)
        return found is not None and not any(
            [found[0] < place < found[1] for opened, place in self._opened if opened == name]
        )

    def _is_stored(
        self,
        before: bytes,
        rest: bytes,
        stored: re.Match[bytes] | None,
        together: bool,
        *,
        indexed: bool,
        many: bool,
    ) -> bool:
        if stored is not None and stored[0] not in (b"=", b":="):
            return False
        left = _LEFT.sub(b"", before, count=1)
        position = left.count(b",")
        if together:
            found = _STORED_TOGETHER.match(rest)
            assert found is not None
            count, right = position + found[0].count(b",") + 1, rest[found.end() :]
        else:
            assert stored is not None
            count, right = position + 1, rest[stored.end() :]
        if (ranged := _RANGE.match(right)) is not None:
            # what stands first may be an item of a channel
            return (
                count == 2
                and position == 1
                and not many
                and self._is_given(parts(right[ranged.end() :], _ENDS)[0], many=True)
            )
        values = parts(right, b";\n" if b"{" in right.partition(b"\n")[0] else _ENDS)
        return len(values) == count and self._is_given(values[position], many=many and not indexed)

    def _is_looked_through(self, before: bytes, bare: bytes, rest: bytes) -> bool:
        """Whether a list, as a whole, is only read, or becomes part of another that is looked at."""
        if last_word(bare) == b"range" or bare.endswith(b"len("):
            return True
        if bare.endswith((b"strings.Join(", b"sort.Strings(")) or rest.startswith((b"== nil", b"!= nil")):
            return True
        left, sign, right = before.partition(b"=")
        word = last_word(left.rstrip(b": \t"))
        if not sign or not word or right.strip() not in (b"", b"append("):
            return False
        self._left.append((word, True, True))
        return True

    def _is_parameter(self, begin: int, opening: tuple[bytes, bytes], *, many: bool) -> bool:
        """Whether a parameter is given an argument by every call of its function."""
        ahead, inside = opening
        literal = _LITERAL.search(ahead)
        callee = literal[1] if literal is not None else last_word(ahead)
        if not callee or callee == b"func":
            return False
        calls = 0
        for start in places(self._code, callee):
            end = start + len(callee)
            if literal is not None and _STORED.match(self._code[end : end + 8].lstrip()) is not None:
                if start < begin:
                    return False
                continue
            if self._code[end : end + 1] != b"(":
                return False
            if last_word(without_brackets(self._code[max(start - 60, 0) : start])) == b"func":
                continue
            values = parts(self._code[end + 1 :])
            position = inside.count(b",")
            if position >= len(values) or not self._is_given(values[position], many=many):
                return False
            calls += 1
        return calls > 0

    def _is_given(self, value: bytes, *, many: bool) -> bool:
        if _EMPTY.match(value) is not None:
            return True
        if not many:
            found = _ONE.match(value)
            if found is None:
                return False
            if found[1]:
                self._left.append((found[1], True, True))
            if found[2]:
                self._left.append((found[2], False, True))
            return True
        if (found := _MANY.match(value)) is not None:
            if found[1]:
                self._left.append((found[1], True, True))
            return True
        if (found := _LIST.match(value)) is not None:
            return all([self._is_given(one, many=False) for one in parts(found[1] + b"}") if one.strip()])
        if (found := _APPEND.match(value)) is not None:
            items = parts(found[1] + b")")
            if len(items) == 2 and items[1].rstrip().endswith(b"..."):
                items = [items[0], items[1].rstrip()[:-3]]
                return all([self._is_given(one, many=True) for one in items])
            return self._is_given(items[0], many=True) and all([self._is_given(one, many=False) for one in items[1:]])
        return False
