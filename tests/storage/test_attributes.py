"""Stored values survive the wire form unchanged, or are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piton.domain.errors import Bug
from piton.domain.rows import Value
from piton.storage.attributes import decode, decode_item, encode

numbers = st.integers(min_value=-(10**38) + 1, max_value=10**38 - 1)
values = st.recursive(
    st.none()
    | st.booleans()
    | numbers
    | st.text()
    | st.binary()
    | st.frozensets(numbers, min_size=1),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_every_value_round_trips(value: Value) -> None:
    again = decode(encode(value))
    assert again == value
    assert type(again) is type(value)


def test_change_events_carry_binary_values_as_base64_text() -> None:
    assert decode_item({"a": {"B": "AAH/"}}) == {"a": b"\x00\x01\xff"}


@pytest.mark.parametrize("value", [frozenset(), 10**38, -(10**38), [10**40]])
def test_what_dynamodb_would_refuse_or_round_is_a_bug(value: Value) -> None:
    with pytest.raises(Bug):
        encode(value)


@pytest.mark.parametrize("value", [1.5, (1,), {1.5}, object()])
def test_other_types_are_a_bug(value: object) -> None:
    with pytest.raises(Bug, match="no attribute holds"):
        encode(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("encoded", [{"N": "1.5"}, {"N": "1E+2"}, {"SS": ["a"]}, {"BS": [b"a"]}])
def test_values_that_the_engine_never_stores_are_a_bug(encoded: dict[str, object]) -> None:
    with pytest.raises(Bug):
        decode(encoded)
