"""What a handler and its subscription may say of a message: how often it is tried again, and what to raise."""

from dataclasses import dataclass

from ..domain.errors import LethelogError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and when a failed message comes again.

    While a server is down (`Unavailable`) a message has not failed either: it is tried again every ``delays[0]``
    seconds, with no other begun, and after a minute others get their turn.
    """

    max_deliveries: int = 5
    """Failures after which it is parked. A message that was put off has not failed."""
    delays: tuple[float, ...] = (1.0, 5.0, 30.0, 120.0)
    """Seconds until it comes again, by failure; the last one holds for all later ones."""
    ack_wait: float = 30.0
    """Seconds of silence after which a delivery counts as lost and comes again."""
    time_limit: float | None = 900.0
    """Seconds a handler may take; then it is cancelled, which is a failure. None sets no limit."""
    most_deliveries: int = 500
    """Deliveries without an answer after which it is parked: for a message that ends the process it comes to.

    One that was put off so often is put on the broker anew, and the broker counts from one again."""

    @property
    def many_deliveries(self) -> int:
        """From so many deliveries on a message that was answered is put on the broker anew."""
        return max(2, self.most_deliveries // 2)

    def delay(self, failures: int) -> float:
        return self.delays[min(failures, len(self.delays)) - 1] if self.delays and failures else 0.0


class RetryLater(LethelogError):
    """Raised by a handler: not now, and not the message's fault. It comes again and is not counted as failed."""

    code = "retry_later"

    def __init__(self, delay: float) -> None:
        super().__init__(f"to be tried again in {delay} seconds")
        self.delay = delay


class Park(LethelogError):
    """Raised by a handler: no retry will help, an operator must look. The reason is a code, never content."""

    code = "parked"

    def __init__(self, reason: str) -> None:
        super().__init__(f"parked: {reason}")
        self.reason = reason


class Reject(LethelogError):
    """Raised by a handler: the message is of no use any more; it ends here without a trace."""

    code = "rejected"

    def __init__(self) -> None:
        super().__init__("rejected")
