"""Canonical JSON: one text per value, and nothing that a store cannot carry."""

from __future__ import annotations

import enum
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piton.domain import canonical
from piton.domain.canonical import NotJson

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner))


def shape(value: Any) -> Any:
    """The value with its kinds spelled out, so that 1, 1.0, True and -0.0 differ."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__, repr(value)


@given(VALUES)
def test_values_come_back_as_they_were(value: Any) -> None:
    text = canonical.dumps(value)
    assert shape(canonical.loads(text)) == shape(value)
    assert canonical.dumps(canonical.loads(text)) == text
    assert "\x00" not in text
    text.encode("utf-8")


@given(st.dictionaries(TEXT, SCALARS), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canonical.dumps(dict(items)) == canonical.dumps(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "-0.0"),
        (2.0, "2.0"),
        (2, "2"),
        (True, "true"),
        (0.1 + 0.2, "0.30000000000000004"),
        (5e-324, "5e-324"),
        ((1, (2,)), "[1,[2]]"),
        ({"b": 1, "a": {"Z": 1, "z": 2}}, '{"a":{"Z":1,"z":2},"b":1}'),
        ({"\U0001f600": 1, "\uffff": 2}, '{"\uffff":2,"\U0001f600":1}'),
        ('"\\\n\x7f\u2028é', '"\\"\\\\\\n\x7f\u2028é"'),
    ],
    ids=repr,
)
def test_texts(value: object, text: str) -> None:
    assert canonical.dumps(value) == text


def test_members_of_enumerations_are_their_values() -> None:
    class Colour(str, enum.Enum):  # noqa: UP042
        RED = "red"

    class Size(enum.IntEnum):
        BIG = 3

    assert canonical.dumps({Colour.RED: [Colour.RED, Size.BIG]}) == '{"red":["red",3]}'


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.nan, r"\$: NaN"),
        ({"a": [0, -math.inf]}, r"\$\.a\[1\]: NaN and infinities"),
        ("\ud800", r"\$: text with a lone surrogate"),
        ({"a": {"\udfff": 1}}, r"\$\.a: text with a lone surrogate"),
        (["a\x00"], r"\$\[0\]: text with U\+0000"),
        ({"a\x00": 1}, r"\$: text with U\+0000"),
        ({"a": {1: 2}}, r"\$\.a: key of type int"),
        ({"a": {1, 2}}, r"\$\.a: set is not JSON"),
        (b"x", r"\$: bytes is not JSON"),
        (1 << 5000, r"\$: integer longer"),
        (nested(201), "nested deeper"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_no_store_can_carry_is_refused_with_its_place(value: object, place: str) -> None:
    with pytest.raises(NotJson, match=place):
        canonical.dumps(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(NotJson, match="nested deeper"):
        canonical.dumps(value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "nul", "[1,]", "{'a':1}", '{"a":1} x', "9" * 5000, "[" * 100_000),
        *("NaN", "[Infinity]", "-Infinity", "1e999", "-1e999"),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_texts_that_are_no_strict_json_are_refused(text: str) -> None:
    with pytest.raises(NotJson):
        canonical.loads(text)


def test_the_digest_is_sha_256_of_the_utf_8_text() -> None:
    assert canonical.digest("é") == (
        "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    )
