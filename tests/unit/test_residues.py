"""The page of places says what the registry says."""

from lethelog.handlers.erasure.residues import PAGE, reference


def test_the_page_of_residues_is_what_the_registry_says():
    assert PAGE.read_text() == reference()
