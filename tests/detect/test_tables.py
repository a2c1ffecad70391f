"""Pairs of literals are found in every language, and lists, texts and ordinary code are no tables."""

from __future__ import annotations

import pytest

from detect.tables import read_table

PAIRS = [
    'T = {"a b": "b a", "c": "d"}',
    "if x == 'a b':\n    print('b a')\nelif x == 'c':\n    print('d')\n",
    '[("a b", "b a"), ("c", "d")]',
    'if (!strcmp(s, "a b")) { puts("b a"); return 0; }\nif (strcmp(s, "c") == 0) printf("d");\n',
    '{"a b", "b a"},\n{"c", "d"},\n',
    'case "a b":\n\tfmt.Println("b a")\ncase "c":\n\tfmt.Println("d")\n',
    '"a b" => println!("b a"),\n"c" => println!("d"),\n',
    'm.put("a b", "b a");\nm.put("c", "d");\n',
    "case 'a b': return 'b a'\ncase 'c': return 'd'\n",
    'case "$x" in\n"a b") echo "b a" ;;\n"c") echo "d" ;;\nesac\n',
]


@pytest.mark.parametrize("text", PAIRS)
def test_pairs(text: str) -> None:
    assert [pair for pair in read_table(text.encode()).pairs] == [(b"a b", b"b a"), (b"c", b"d")]


@pytest.mark.parametrize(
    "text",
    [
        'x = ["a", "b", "c", "d", "e", "f"]\n',
        'print("a", "b", "c")\nprint("d", "e", "f")\n',
        'puts("usage: x");\nputs("  -a  all");\nputs("  -b  none");\nputs("");\n',
        '"a" + x + "b" + y + "c" + z + "d"',
    ],
)
def test_what_is_no_table(text: str) -> None:
    assert read_table(text.encode()).entries <= 2


def test_names_and_numbers_are_keys_outside_of_strings() -> None:
    text = (
        b"x = {one: 'a', two : 'b', 1234567: 'c', 0xabcdef01u: 'd', three.four: 'e'}\ny = \"five: 'f' 7654321: 'g'\"\n"
    )
    assert [key for key, _ in read_table(text).pairs] == [b"one", b"two", b"1234567", b"0xabcdef01"]


def test_digests_and_answers() -> None:
    table = read_table(b'{"d41d8cd98f00b204e9800998ecf8427e": "0 0", "deadbeef": "x", 0x1234abcd: "1 2", 7: "y"}')
    assert table.digests == 2, "words of the letters a to f are no digests, nor are small numbers"
    assert table.answered([b"0 0\n1 2\n"]) == pytest.approx(2 / 3)
    assert table.answered([]) == 0


def test_time_grows_with_the_text() -> None:
    for piece in (b'"a":', b"'", b'"', b'"a"((((((((', b'"\\', b"a:'", b'"a" echo echo echo echo '):
        read_table(piece * (200_000 // len(piece)))
