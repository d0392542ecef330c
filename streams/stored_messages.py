"""What a stream of the broker holds, message by message: found, deleted, and which event of the log it is."""

# The client's own signatures end in untyped dictionaries.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import nats.js.errors
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg, StreamInfo

_LOOK_BACK = 1000
"""Messages at a stream's end that are looked at for its last event."""


async def next_message(js: JetStreamContext, stream: str, subject: str, sequence: int) -> RawStreamMsg | None:
    """The first message of a subject from a sequence on; None when there is none. Raises the client's errors."""
    try:
        return await js.get_msg(stream, seq=sequence, subject=subject, next=True)
    except nats.js.errors.NotFoundError:
        return None


async def delete_message(js: JetStreamContext, stream: str, sequence: int) -> None:
    """Delete a message of a stream; one that is gone already is fine. Raises the client's errors."""
    try:
        await js.delete_msg(stream, sequence)
    except nats.js.errors.NotFoundError:
        pass
    except nats.js.errors.APIError as error:
        # What the server says of a message that was deleted before.
        if error.err_code not in (10057, 10043):
            raise


def created_at(info: StreamInfo) -> str:
    return info.created.isoformat() if info.created else ""


async def last_position(js: JetStreamContext, info: StreamInfo) -> int | None:
    """Position of a stream's last event; None when it holds none."""
    first, last = info.state.first_seq, info.state.last_seq
    assert info.config.name is not None
    if not info.state.messages:
        return None
    # Somebody else's messages at its end are passed over.
    for sequence in range(last, max(first - 1, last - _LOOK_BACK), -1):
        position = await position_at(js, info.config.name, sequence)
        if position is not None:
            return position
    return None


async def position_at(js: JetStreamContext, stream: str, sequence: int) -> int | None:
    """Position of the event that stands at a sequence of the stream; None where there is none."""
    try:
        message = await js.get_msg(stream, seq=sequence)
    except nats.js.errors.NotFoundError:
        return None
    text = str(dict(message.headers or {}).get("Nats-Msg-Id", ""))
    return int(text) if text.isdecimal() else None
