"""Connections that make no progress are ended, so that nobody keeps one by saying or reading nothing."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0
"""How long a client may take to say what it asks for, counted from the connection, or from the first byte."""
READ_SECONDS = 60.0
"""How long a client may leave what it was sent unread: what waits for it fits into no buffer by then."""


class Patient(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with an end to waiting for the other side."""

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head = _ended(self._head)
        self._unread = _ended(self._unread)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head = _ended(self._head)
        elif self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = _ended(self._unread)


def _ended(timer: Any) -> None:
    if timer is not None:
        timer.cancel()
