"""Owner keys, resource ids, scopes, and what a program can ask about the caller."""

from itertools import product
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.auth import (
    ANONYMOUS,
    LOCAL,
    REASONS,
    Principal,
    current_principal,
    owner_of,
    principal_id,
    require_scopes,
    resolve_resource_id,
)
from bascule.context import RequestContext, use_context
from bascule.errors import AuthError, ScopeMissing, TokenInvalid

ALICE = Principal(id=principal_id("user", "https://issuer.example", "alice"), scopes=frozenset({"agents:run"}))


def test_an_owner_key_never_changes() -> None:
    assert ALICE.id == "user_14d3e8f733be51e812b0392aa905699fc8d6ba17"


@given(st.text(), st.text(), st.text(), st.text())
def test_d23_different_identities_have_different_owner_keys(a: str, b: str, c: str, d: str) -> None:
    def encodable(*texts: str) -> bool:
        return all(not any("\ud800" <= letter <= "\udfff" for letter in text) for text in texts)

    if (a, b) != (c, d) and encodable(a, b, c, d):
        assert principal_id("user", a, b) != principal_id("user", c, d)


def test_d23_neither_the_border_between_issuer_and_subject_nor_the_kind_can_be_forged() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("a:b", "c"), ("a", "b:c"), ("client:a", "bc")]
    kinds: tuple[Literal["user", "client", "key"], ...] = ("user", "client", "key")
    ids = {principal_id(kind, *pair) for kind, pair in product(kinds, pairs)}
    assert len(ids) == len(kinds) * len(pairs)


@pytest.mark.parametrize("requested", [None, "", "somebody-else", ALICE.id, "local"])
def test_d33_a_verified_identity_works_on_its_own_data(requested: str | None) -> None:
    assert resolve_resource_id(ALICE, requested) == ALICE.id == owner_of(ALICE)


def test_d33_a_foreign_resource_id_can_be_refused() -> None:
    for fine in (None, "", ALICE.id):
        assert resolve_resource_id(ALICE, fine, on_mismatch="refuse") == ALICE.id
    with pytest.raises(AuthError, match="not yours"):
        resolve_resource_id(ALICE, "somebody-else", on_mismatch="refuse")


@pytest.mark.parametrize("principal", [ANONYMOUS, LOCAL])
def test_without_auth_the_requested_resource_id_is_kept(principal: Principal) -> None:
    assert resolve_resource_id(principal, "mine") == "mine"
    assert resolve_resource_id(principal, None) is None
    assert resolve_resource_id(principal, "mine", on_mismatch="refuse") == "mine"


@pytest.mark.parametrize(
    ("granted", "needed", "enough"),
    [
        ("agents:run", "agents:run", True),
        ("agents:run", "agents:run:tutor", True),
        ("agents:run", "agents:run:tutor:deep", True),
        ("agents:*", "agents:run:tutor", True),
        ("agents:run:*", "agents:run:tutor", True),
        ("admin:*", "anything", True),
        ("agents:run:tutor", "agents:run", False),
        ("agents:run:tutor", "agents:run:tutor2", False),
        ("agents:run", "agents:running", False),
        ("agents", "agents:run", False),
        ("agents:read", "agents:run", False),
        ("*", "agents:run", False),
        ("agents:*", "agents", False),
        ("admin", "agents:run", False),
        ("", "agents:run", False),
    ],
)
def test_d28_scopes_form_a_hierarchy(granted: str, needed: str, *, enough: bool) -> None:
    principal = Principal(id="x", scopes=frozenset(granted.split()))
    if enough:
        require_scopes(needed)(principal)
    else:
        with pytest.raises(ScopeMissing):
            require_scopes(needed)(principal)


def test_d25_the_error_names_every_scope_that_is_needed() -> None:
    with pytest.raises(ScopeMissing, match=r"lacks the scopes acp:run\.") as caught:
        require_scopes("agents:run", "acp:run")(ALICE)
    assert caught.value.scopes == ("agents:run", "acp:run")


def test_the_person_at_this_machine_has_every_right_and_nobody_has_none() -> None:
    check = require_scopes("agents:run")
    check(LOCAL)
    for nobody in (ANONYMOUS, None):
        with pytest.raises(TokenInvalid) as caught:
            check(nobody)
        assert caught.value.reason == "no_token"


def test_the_current_principal_is_the_one_of_the_request() -> None:
    assert current_principal() is None
    with use_context(RequestContext(principal=ALICE)):
        assert current_principal() is ALICE
        require_scopes("agents:run")()
        with pytest.raises(ScopeMissing):
            require_scopes("acp:run")()
    assert current_principal() is None


def test_reasons_are_codes() -> None:
    assert len(set(REASONS)) == len(REASONS)
    assert all(code.replace("_", "").isalpha() and code.islower() for code in REASONS)
