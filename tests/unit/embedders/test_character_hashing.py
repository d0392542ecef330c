import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.projections.embedders.character_hashing import blended, character_vector

words = st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=30), max_size=5)


@given(words=words, dimensions=st.sampled_from([8, 100, 256, 3072]))
def test_it_is_a_unit_vector_of_any_width(words: list[str], dimensions: int) -> None:
    vector = character_vector(words, dimensions)
    assert vector.shape == (dimensions,)
    assert np.linalg.norm(vector.astype(np.float64)) == pytest.approx(1, abs=1e-6)


def test_it_never_changes() -> None:
    # Stored vectors depend on these bits; another result needs another version of the rule.
    vector = character_vector(["አበበ"], 256)
    assert "".join("+" if x > 0 else "-" for x in vector[:24]) == "+--+-----++---+---------"


def test_shared_letters_bring_words_together_and_others_apart() -> None:
    one, like, other = (character_vector([word], 256) for word in ("አበበች", "አበበ", "ዝናብ"))
    assert one @ like > 0.5
    assert abs(one @ other) < 0.3


def test_case_and_compatibility_forms_are_one() -> None:
    assert (character_vector(["Ꭳ"], 64) == character_vector(["ꭳ"], 64)).all()
    assert (character_vector(["ﬁ"], 64) == character_vector(["FI"], 64)).all()


def test_words_stand_side_by_side_in_any_order() -> None:
    assert character_vector(["አበበ", "ዝናብ"], 64) == pytest.approx(character_vector(["ዝናብ", "አበበ"], 64))


def test_unrelated_words_are_orthogonal_on_average() -> None:
    vectors = np.stack([character_vector([chr(0x13000 + 7 * n) * 3], 256) for n in range(100)])
    cosines = (vectors @ vectors.T)[np.triu_indices(100, 1)]
    assert abs(cosines.mean()) < 0.02
    assert np.abs(cosines).max() < 0.35


def test_a_text_that_is_known_keeps_the_models_direction() -> None:
    known = np.array([3.0, 4.0] + [0.0] * 6)
    assert blended(known, 5, [], 8) == pytest.approx([0.6, 0.8] + [0.0] * 6)


def test_a_text_that_is_unknown_is_its_letters() -> None:
    assert (blended(np.zeros(8), 0, ["አበበ"], 8) == character_vector(["አበበ"], 8)).all()
    assert (blended(np.ones(8), 0, ["አበበ"], 8) == character_vector(["አበበ"], 8)).all()


def test_both_sides_weigh_by_their_tokens() -> None:
    known = np.zeros(256)
    known[0] = 5.0
    letters = character_vector(["አበበ"], 256).astype(np.float64)
    letters_alone = letters.copy()
    letters_alone[0] = 0
    for tokens in (1, 10):
        mixed = blended(known, tokens, ["አበበ"], 256)
        assert mixed @ letters_alone / (letters_alone @ letters_alone) == pytest.approx(
            1 / np.linalg.norm(tokens * known / 5 + letters), rel=1e-4
        )


def test_a_quarter_of_a_million_unknown_characters_are_bounded_work() -> None:
    text = "".join(chr(0x13000 + n % 1000) for n in range(262_144))
    assert np.isfinite(character_vector([text], 384)).all()
