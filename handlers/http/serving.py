"""What the server's doors share: the engine, who may in, and one caller's memory for each request."""

from dataclasses import dataclass, field

from ...domain.extraction import FactExtractor
from ...streams.broker import BrokerSettings
from ..access.credentials import Credential, Credentials, Verifier
from ..engine import Engine
from ..forgetting.settings import PassSettings
from ..memory import AsyncMemory
from ..whatif.whatif import JudgeNamed, no_judges


@dataclass(frozen=True)
class Serving:
    """The parts, open; whoever opened them closes them."""

    engine: Engine
    credentials: Credentials
    passes: PassSettings
    broker: BrokerSettings | None = None
    judge_named: JudgeNamed = field(default=no_judges)
    extractor: FactExtractor | None = None

    def memory(self, credential: str, checked_by: Verifier | None = None) -> AsyncMemory:
        """The memory of whoever shows this credential, which is checked at each verb. Closing it is not needed."""
        return AsyncMemory(
            self.engine,
            Credential(checked_by or self.credentials, credential),
            self.passes,
            broker=self.broker,
            judge_named=self.judge_named,
            extractor=self.extractor,
        )
