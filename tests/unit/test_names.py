"""Names from outside: there is no key without a valid tenant, and none that leads elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piton.domain.names import Tenant, is_document, is_execution_id
from piton.domain.rows import ExecutionRef
from piton.storage import keys
from piton.storage.keys import MAX_OPERATION_VERSION

NO_TENANTS = ["", "a", "A-b", "1acme", "-acme", "acme ", "acme\n", "ac#me", "acmé", "a" * 34, "a/b"]
BUILDERS: list[Callable[[str], object]] = [
    lambda tenant: keys.meta(ExecutionRef(tenant, "01K")),
    lambda tenant: keys.execution_input(ExecutionRef(tenant, "01K")),
    lambda tenant: keys.node(ExecutionRef(tenant, "01K"), 1),
    lambda tenant: keys.workflow(tenant, "w", 1),
    keys.tenant_partition,
    lambda tenant: keys.idempotency(Tenant(tenant), "invoice-1", 1),
]
TENANTS = st.from_regex(r"[a-z][a-z0-9-]{1,32}", fullmatch=True)
DOCUMENTS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:/@+=,-]{0,40}", fullmatch=True)
VERSIONS = st.integers(1, MAX_OPERATION_VERSION)


@pytest.mark.parametrize("text", NO_TENANTS, ids=repr)
def test_other_texts_are_no_tenant(text: str) -> None:
    with pytest.raises(ValueError, match="tenant"):
        Tenant(text)


@pytest.mark.parametrize("text", ["ab", "acme", "a1", "a-", "a" * 33])
def test_a_tenant_is_its_text(text: str) -> None:
    assert Tenant(text) == text
    assert Tenant(Tenant(text)) == text


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("text", NO_TENANTS, ids=repr)
def test_no_key_is_built_without_a_valid_tenant(build: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match="tenant"):
        build(text)


@pytest.mark.parametrize("document", ["", "-a", "a#b", "a b", "a" * 257, "a\n", "é"], ids=repr)
def test_other_texts_name_no_document(document: str) -> None:
    assert not is_document(document)
    with pytest.raises(ValueError, match="document"):
        keys.idempotency(Tenant("acme"), document, 1)


@pytest.mark.parametrize("version", [0, -1, MAX_OPERATION_VERSION + 1])
def test_an_operation_version_has_its_range(version: int) -> None:
    with pytest.raises(ValueError, match="version"):
        keys.idempotency(Tenant("acme"), "invoice-1", version)


@given(st.tuples(TENANTS, DOCUMENTS, VERSIONS), st.tuples(TENANTS, DOCUMENTS, VERSIONS))
def test_one_idempotency_key_stands_for_one_document_and_version_of_one_tenant(
    left: tuple[str, str, int], right: tuple[str, str, int]
) -> None:
    ours, theirs = (keys.idempotency(Tenant(t), d, v) for t, d, v in (left, right))
    assert (ours == theirs) is (left == right)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("01K7A3V5T2N8Q4R6W9X0Y1Z2B3", True),
        ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", True),
        ("8ZZZZZZZZZZZZZZZZZZZZZZZZZ", False),
        ("01K7A3V5T2N8Q4R6W9X0Y1Z2B", False),
        ("01k7a3v5t2n8q4r6w9x0y1z2b3", False),
        ("01K7A3V5T2N8Q4R6W9X0Y1Z2BU", False),
        ("01K7A3V5T2N8Q4R6W9X0Y1Z2B3\n", False),
    ],
)
def test_execution_ids_are_ulids(text: str, *, expected: bool) -> None:
    assert is_execution_id(text) is expected
