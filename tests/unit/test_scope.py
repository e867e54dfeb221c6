"""Effective scope is compared by what it means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piton.domain.scope import Scope, scope_hash

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
SCOPES = st.builds(Scope, NAMES, NAMES, NAMES, st.frozensets(NAMES, max_size=5))


@given(SCOPES, st.randoms(use_true_random=False))
def test_order_of_keys_order_of_ids_and_repeats_do_not_matter(scope: Scope, random: Any) -> None:
    document: dict[str, Any] = scope.to_json()
    ids = document["scope_ids"] * 2
    random.shuffle(ids)
    items = [*document.items(), ("scope_ids", ids)]
    random.shuffle(items)
    written = Scope.from_json({**dict(items), "scope_ids": ids})
    assert written == scope
    assert written.text == scope.text
    assert Scope.from_json(json.loads(scope.text)) == scope


@given(SCOPES, SCOPES)
def test_two_scopes_have_one_text_only_if_they_mean_the_same(left: Scope, right: Scope) -> None:
    assert (left.text == right.text) is (left == right)
    assert (scope_hash(left.text) == scope_hash(right.text)) is (left == right)


@pytest.mark.parametrize("document", [{}, {"scope_ids": []}, {"visibility": None}, {"other": 1}])
def test_what_is_left_out_takes_its_default(document: dict[str, Any]) -> None:
    assert Scope.from_json(document) == Scope()
    assert Scope.from_json(document).text == (
        '{"resolution_status":"resolved","scope_ids":[],"source_kind":"api","visibility":"tenant"}'
    )


def test_ids_that_are_no_list_are_refused() -> None:
    with pytest.raises(ValueError, match="scope_ids"):
        Scope.from_json({"scope_ids": "invoices"})
