"""What counts as the same output, for each declared comparison: rules on chosen bytes, and laws on any bytes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox.comparison import EXACT, Comparison, ComparisonError, agree

SORTED = Comparison(kind="sorted_lines")
STATUS = Comparison(kind="exit_status")
NEAR = Comparison(kind="float", absolute=1e-6, relative=1e-3)


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (b"a\nb\n", b"b\na\n", True),
        (b"a\na\nb\n", b"a\nb\nb\n", False),  # each as often
        (b"a\nb\n", b"b\na", False),  # the newline at the end
        (b"a\n\nb", b"a\nb\n", False),  # an empty line is no newline at the end
        (b"\n\n", b"\n", False),
        (b"", b"\n", False),
        (b"\xff\n\xfe\n", b"\xfe\n\xff\n", True),
        (b"a \n", b"a\n", False),
        (b"a\r\nb\n", b"b\na\r\n", True),
    ],
)
def test_sorted_lines(expected: bytes, actual: bytes, same: bool) -> None:
    assert agree(SORTED, expected, actual) is same


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (b"1.0\n", b"1.0005\n", True),
        (b"1.0\n", b"1.002\n", False),
        (b"1000\n", b"1000.9\n", True),  # relative to what is expected
        (b"0\n", b"-0.0\n", True),
        (b"0\n", b"1e-7\n", True),
        (b"0\n", b"1e-5\n", False),
        (b"-1\n", b"1\n", False),
        (b"nan\n", b"NaN\n", True),
        (b"nan\n", b"-nan\n", True),
        (b"nan\n", b"0\n", False),
        (b"0\n", b"nan\n", False),
        (b"inf\n", b"Infinity\n", True),
        (b"inf\n", b"-inf\n", False),
        (b"inf\n", b"1e999\n", False),
        (b"1e999\n", b"2e999\n", False),
        (b"1e308\n", b"1.0001e308\n", True),
        (b"x=1.5, y=2\n", b"x=1.50001, y=2.0\n", True),
        (b"x=1.5\n", b"z=1.5\n", False),
        (b"information\n", b"nanformation\n", False),
        (b"nano 1\n", b"infa 1\n", False),
        (b"1 2\n", b"1\n", False),
        (b"1\n2\n", b"1 2\n", False),
        (b"1\n", b"1", False),  # the newline at the end
        (b"   1.5  2\t3\n", b"1.5 2 3  \n", True),
        (b"\xff 1\n", b"\xff 1.0001\n", True),
        (b"\xff 1\n", b"\xfe 1\n", False),
        (b"9" * 500, b"9" * 499 + b"8", False),  # no longer a number
    ],
)
def test_numbers(expected: bytes, actual: bytes, same: bool) -> None:
    assert agree(NEAR, expected, actual) is same


def test_exit_status_alone_and_exact() -> None:
    assert agree(STATUS, b"a", b"b")
    assert agree(EXACT, b"a\n", b"a\n")
    assert not agree(EXACT, b"a\n", b"a")


@given(st.binary(), st.sampled_from([EXACT, SORTED, STATUS, NEAR]))
def test_everything_agrees_with_itself(data: bytes, how: Comparison) -> None:
    assert agree(how, data, data)


@given(st.binary(), st.binary())
@example(b"a", b"")
def test_exact_is_equality(one: bytes, other: bytes) -> None:
    assert agree(EXACT, one, other) == (one == other)


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line), min_size=1), st.randoms())
def test_order_does_not_matter_and_a_changed_line_does(lines: list[bytes], random) -> None:
    text = b"".join(line + b"\n" for line in lines)
    shuffled = random.sample(lines, len(lines))
    assert agree(SORTED, text, b"".join(line + b"\n" for line in shuffled))
    shuffled[0] += b"!"
    assert not agree(SORTED, text, b"".join(line + b"\n" for line in shuffled))


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_two_numbers_agree_within_the_tolerance_only(a: float, b: float) -> None:
    near = abs(a - b) <= max(NEAR.absolute, NEAR.relative * abs(a))
    assert agree(NEAR, b"v %r\n" % a, b"v %r\n" % b) == (near or a == b)


@given(st.binary(), st.binary())
def test_any_bytes_are_answered(one: bytes, other: bytes) -> None:
    assert agree(NEAR, one, other) in (True, False)


@pytest.mark.parametrize("data", [b"1" * (1 << 20), b"1 " * (1 << 19), b"+-.e" * (1 << 18), b"inf" * 350_000])
def test_a_megabyte_of_anything_is_answered(data: bytes) -> None:
    assert agree(NEAR, data + b" 1", data + b"   1.0")
    assert not agree(NEAR, data + b" 1", data + b" 2")
    assert not agree(SORTED, data + b"1", data + b"2")


WRONG = (
    {"absolute": 1.0},
    {"kind": "float"},
    {"kind": "float", "absolute": -1.0},
    {"kind": "float", "relative": float("nan")},
)


@pytest.mark.parametrize("given", WRONG)
def test_a_comparison_that_means_nothing_is_refused(given: dict) -> None:
    with pytest.raises(ComparisonError):
        Comparison(**given)
