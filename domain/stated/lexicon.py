"""Word lists written as plain text, so that they read as lists of words."""


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """Phrases separated by bars, as rows of words: "instead of | in lieu of"."""
    return tuple(tuple(phrase.split()) for phrase in text.split("|"))
