"""Which names of tenants may be taken for each other, and which are no names."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.errors import InvalidInput
from lethelog.domain.fields import parse
from lethelog.handlers.tenancy.tenancy import CreateTenant
from lethelog.handlers.tenancy.tenant_names import look_alike


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("acme", "ACME"),
        ("acme", "аcme"),
        ("acme", "ａｃｍｅ"),
        ("acme", "acmé"),
        ("acme", "ac\u200bme"),
        ("acme-corp", "acme_corp"),
        ("acme-corp", "acme corp"),
        ("acme.corp", "acme–corp"),
        ("acme", "ac me"),
        ("acme", "ac\u00a0me"),
        ("acme", "acme_"),
        ("acme", "a.cme"),
        ("acmecorp", "acme-corp"),
        ("acme1", "acmel"),
        ("paypal", "paypaI"),
        ("modern", "rnodern"),
        ("straße", "STRASSE"),
    ],
)
def test_these_may_be_taken_for_each_other(one: str, other: str):
    assert look_alike(one, other) and look_alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("acme", "acme-corp"), ("acme", "acme%"), ("acme", "acme*"), ("acme corp", "acme core"), ("a", "b")],
)
def test_these_are_told_apart(one: str, other: str):
    assert not look_alike(one, other)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_a_name_looks_like_itself_in_every_form(name: str):
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert look_alike(name, unicodedata.normalize(form, name))


def test_a_name_is_kept_in_nfc_with_its_case():
    assert parse(CreateTenant, {"name": " Cafe\u0301 "}).name == "Café"


@pytest.mark.parametrize("wrong", ["", "  ", "a\nb", "a\x00b", "a\u2028b", "x" * 257, 7, None])
def test_what_is_no_name_is_refused(wrong: object):
    with pytest.raises(InvalidInput) as refused:
        parse(CreateTenant, {"name": wrong})
    assert refused.value.field == "name"
