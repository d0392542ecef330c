"""What a memory is about where nobody said it."""


def topic_of(content: object) -> str:
    """A topic for a memory that was given none: the beginning of its first line.

    Anything that is no text gets a placeholder, so that the error is about the content.
    """
    lines = content.strip().splitlines() if isinstance(content, str) else []
    first = lines[0].strip() if lines else ""
    # What cannot be stored is the content's fault.
    first = first.replace("\x00", "").encode(errors="ignore").decode()
    if not first:
        return "untitled"
    return first if len(first) <= 80 else first[:79].rstrip() + "…"


def topic_of_successor(topic: str | None, content: str | None, successor: str) -> str | None:
    """The topic of a text that takes another's place: one that was given stays, any other is of the new text."""
    return topic_of(successor) if topic == topic_of(content) else topic
