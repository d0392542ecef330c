"""What every embedder promises. A test class for an implementation inherits and gives the fixture ``embedder``."""

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lethelog.domain.errors import Unavailable
from lethelog.projections.embedders import Embedder, floor_for

SCRIPTS = {
    "Latin": "The release moves to Thursday.",
    "accents": "L’équipe préfère déployer à Noël, naïvement.",
    "Vietnamese": "Người dùng thích cà phê đen.",
    "Greek": "Ο χρήστης προτιμά τον καφέ.",
    "Cyrillic": "Пользователь предпочитает чай.",
    "Hebrew": "המשתמש אוהב קפה.",
    "Arabic": "يفضل المستخدم القهوة.",
    "Devanagari": "उपयोगकर्ता को चाय पसंद है।",
    "Thai": "ผู้ใช้ชอบกาแฟดำ",
    "Khmer": "អ្នកប្រើចូលចិត្តកាហ្វេ",
    "Ethiopic": "የተጠቃሚው ስም አበበ ነው",
    "Georgian": "მომხმარებელს უყვარს ყავა",
    "Chinese": "用户喜欢黑咖啡。",
    "rare ideographs": "𠜎𠜱𠝹𠱓",
    "Japanese": "利用者はコーヒーが好きです。",
    "Korean": "사용자는 커피를 좋아합니다.",
    "Cherokee": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
    "cuneiform": "𒀭𒂗𒆤",
    "emoji": "🎉🚀👩🏽‍💻🏳️‍🌈",
    "mathematics": "∀x∈ℝ: ⌈x⌉ ≥ x",
    "code": "if (a != b) { return x[i]->y; }",
    "digits": "2026-11-29 07:15:00 +0000",
    "decomposed": unicodedata.normalize("NFD", "déjà vu à Zürich"),
    "right to left marks": "\u202eabc\u202c \u200f\u200e",
    "zero width": "\u200b\u200d\ufeff",
    "control characters": "\x00\x01\x1f\x7f",
    "private use": "\ue000\U000f0000",
    "unassigned": "\U000e0fff",
    "framing tokens": "[CLS] [SEP] [UNK] <s> </s> <0xE1>",
    "one long word": "x" * 300,
    "line breaks": "one\n\n\ttwo\r\nthree",
}

BLANK = ("", " ", "\n\t ", "\u3000")


class EmbedderContract:
    """Holds for every embedder, whatever it knows."""

    def test_every_row_is_a_finite_unit_vector_of_the_stated_length(self, embedder: Embedder) -> None:
        vectors = embedder.embed([*SCRIPTS.values(), *BLANK])
        assert vectors.shape == (len(SCRIPTS) + len(BLANK), embedder.dimensions)
        assert vectors.dtype == np.float32
        assert np.isfinite(vectors).all()
        np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1, atol=1e-6)

    def test_no_texts_give_no_rows_of_the_right_width(self, embedder: Embedder) -> None:
        nothing = embedder.embed([])
        assert nothing.shape == (0, embedder.dimensions)
        assert nothing.dtype == np.float32

    def test_the_same_text_gives_the_same_bits_whatever_stands_beside_it(self, embedder: Embedder) -> None:
        texts = list(SCRIPTS.values())
        together = embedder.embed(texts)
        for place in (0, len(texts) // 2, len(texts) - 1):
            assert (embedder.embed([texts[place]])[0] == together[place]).all()
        assert (embedder.embed(texts[::-1])[::-1] == together).all()

    def test_rows_come_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        texts = [f"{SCRIPTS['Latin']} {SCRIPTS['digits']} {number}" for number in range(70)]
        vectors = embedder.embed([*texts, texts[3]])
        similar = vectors[:70] @ vectors[70]
        assert int(similar.argmax()) == 3

    def test_blank_texts_are_one_text_and_like_no_other(self, embedder: Embedder) -> None:
        blank = embedder.embed(list(BLANK))
        assert (blank == blank[0]).all()
        others = embedder.embed([SCRIPTS[name] for name in ("Latin", "Ethiopic", "emoji", "code")])
        assert abs(others @ blank[0]).max() < 0.4

    def test_texts_of_unknown_characters_are_told_apart(self, embedder: Embedder) -> None:
        unknown = ["𒀭𒂗𒆤", "𓀀𓁐𓂀", "ᏣᎳᎩ", "🦜🪵", "🧷🪥", "አበበ"]
        cosines = embedder.embed(unknown) @ embedder.embed(unknown).T
        assert (cosines - np.eye(len(unknown))).max() < 0.75

    def test_the_end_of_a_long_text_counts(self, embedder: Embedder) -> None:
        long = " ".join(f"Point {number} of the plan was discussed and left as it is." for number in range(120))
        vectors = embedder.embed([long + " Budget.", long + " Zebra migration: the owner prefers Kafka."])
        assert (vectors[0] != vectors[1]).any()

    def test_a_long_text_resembles_what_it_repeats(self, embedder: Embedder) -> None:
        sentence = "The invoices are sent on the last working day."
        once, often, other = embedder.embed([sentence, " ".join([sentence] * 60), SCRIPTS["Thai"]])
        assert once @ often > 0.7
        assert once @ often > other @ often

    def test_a_long_text_in_an_unknown_script_is_embedded_too(self, embedder: Embedder) -> None:
        vectors = embedder.embed(["አበበ ነው። " * 600, "𒀭𒂗𒆤" * 600])
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    def test_a_bare_string_is_refused(self, embedder: Embedder) -> None:
        with pytest.raises(TypeError, match="list of texts"):
            embedder.embed("one text")

    def test_several_threads_get_what_one_gets(self, embedder: Embedder) -> None:
        texts = list(SCRIPTS.values())
        alone = embedder.embed(texts)
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(embedder.embed, [texts] * 8))
        assert all((answer == alone).all() for answer in answers)

    def test_the_identity_names_model_dimensions_and_rules(self, embedder: Embedder) -> None:
        name, _, rules = embedder.model.partition("+")
        family, _, release = name.partition("@")
        assert family.endswith(f"-{embedder.dimensions}")
        assert release
        assert "chars1" in rules
        assert not any(letter.isspace() for letter in embedder.model)

    def test_the_floor_is_a_cosine(self, embedder: Embedder) -> None:
        assert 0 <= floor_for(embedder.model) < 1

    def test_after_close_it_says_that_it_is_closed(self, fresh: Embedder) -> None:
        with fresh:
            fresh.embed([SCRIPTS["Latin"]])
        fresh.close()
        with pytest.raises(Unavailable, match="closed"):
            fresh.embed([SCRIPTS["Latin"]])

    # Each implementation runs this with its own embedder: the differing executors are meant.
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(text=st.text(st.characters(exclude_categories=("Cs",)), max_size=200))
    def test_any_text_has_a_finite_unit_vector_that_never_changes(self, embedder: Embedder, text: str) -> None:
        first, second = embedder.embed([text, text])
        assert np.isfinite(first).all()
        assert abs(float(np.linalg.norm(first.astype(np.float64))) - 1) < 1e-6
        assert (first == second).all()


class MeaningContract:
    """Holds for embedders with a model of language behind them."""

    @pytest.mark.parametrize(
        ("text", "same", "other"),
        [
            (
                "The user prefers dark mode in the editor.",
                "She likes her editor with a dark theme.",
                "The quarterly invoice was paid on Monday.",
            ),
            (
                "We decided to store events in PostgreSQL.",
                "Events are now kept in a Postgres database.",
                "Lunch is at noon in the small kitchen.",
            ),
        ],
    )
    def test_a_paraphrase_is_nearer_than_another_subject(
        self, embedder: Embedder, text: str, same: str, other: str
    ) -> None:
        vectors = embedder.embed([text, same, other])
        assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2

    @pytest.mark.parametrize(
        ("text", "same", "other"),
        [
            ("የተጠቃሚው ስም አበበ ነው", "የተጠቃሚው ስም ከበደ ነው", "ዛሬ ዝናብ ይዘንባል"),
            ("አበበ likes tea", "አበበ likes coffee", "The disk is full"),
            ("用户喜欢黑咖啡", "用户更喜欢绿茶", "会议改到星期一"),
            ("Пользователь любит чёрный кофе", "Пользователь любит зелёный чай", "Встреча завтра в девять"),
        ],
    )
    def test_in_other_scripts_shared_words_bring_texts_together(
        self, embedder: Embedder, text: str, same: str, other: str
    ) -> None:
        vectors = embedder.embed([text, same, other])
        assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.1

    def test_an_emoji_hardly_moves_a_sentence(self, embedder: Embedder) -> None:
        vectors = embedder.embed(["The deployment failed", "The deployment failed 🔥🔥", "🔥🔥"])
        assert vectors[0] @ vectors[1] > 0.8
        assert vectors[1] @ vectors[0] > vectors[1] @ vectors[2]
