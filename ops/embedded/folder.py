"""The data directory: which one, what lies where in it, and whether it can be used."""

import os
from dataclasses import dataclass
from pathlib import Path

from ...domain.errors import Misconfigured
from ..folders import default_data_dir
from .failure import account_name, explain_os_error


@dataclass(frozen=True)
class DataFolder:
    """The paths of one data directory. Making an instance touches nothing."""

    root: Path

    @classmethod
    def at(cls, data_dir: Path | None) -> "DataFolder":
        """The folder named, or the default one. Raises Misconfigured for a name no server could use."""
        path = Path(data_dir) if data_dir is not None else default_data_dir()
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in str(path)):
            raise Misconfigured(f"The data directory {str(path)!r} has a control character in its name.")
        try:
            return cls(path.expanduser().resolve())
        except OSError as error:
            raise explain_os_error(error, path) from None
        except RuntimeError as error:  # a loop of links, or ~ without a home
            raise Misconfigured(f"The data directory {path} cannot be found: {error}") from None

    @property
    def secrets(self) -> Path:
        """Generated passwords, one a file."""
        return self.root / "secrets"

    @property
    def cluster(self) -> Path:
        """The PostgreSQL data directory, unless ``placement`` says it lies elsewhere."""
        return self.root / "pg"

    @property
    def placement(self) -> Path:
        """Says where the database files lie when they cannot lie here."""
        return self.root / "placement.json"

    @property
    def broker_store(self) -> Path:
        """The JetStream store."""
        return self.root / "js"

    @property
    def broker_config(self) -> Path:
        """The broker's configuration; holds its token."""
        return self.root / "nats.conf"

    @property
    def broker_ports(self) -> Path:
        """Where the broker writes which port it got."""
        return self.root / "ports"

    @property
    def broker_port(self) -> Path:
        """The port to use again."""
        return self.root / "nats.port"

    @property
    def logs(self) -> Path:
        """What the supervisor and the servers say."""
        return self.root / "logs"

    @property
    def state(self) -> Path:
        """What runs now; see the module ``state``."""
        return self.root / "state.json"

    @property
    def failure(self) -> Path:
        """Why the last start failed."""
        return self.root / "failure.json"

    @property
    def hold(self) -> Path:
        """Exists while the servers are to stay up without clients."""
        return self.root / "hold"

    @property
    def supervisor_lock(self) -> Path:
        """Held exclusively by the one supervisor."""
        return self.root / "supervisor.lock"

    @property
    def clients_lock(self) -> Path:
        """Held shared by every client."""
        return self.root / "clients.lock"

    @property
    def start_lock(self) -> Path:
        """Held by the one client that is starting a supervisor."""
        return self.root / "start.lock"

    def contents(self) -> list[Path]:
        """Everything the servers put into the directory, as far as it exists."""
        names = (
            *(
                "secrets",
                "pg",
                "js",
                "run",
                "ports",
                "logs",
                "placement.json",
                "nats.conf",
                "nats.port",
                "hold",
                "worker.json",
            ),
            *("state.json", "failure.json", "supervisor.lock", "clients.lock", "start.lock", "cluster.lock"),
        )
        drafts = [*self.root.glob("pg.partial-*"), *self.root.glob(".*.*.*")]
        return [path for name in names if (path := self.root / name).exists()] + drafts

    def prepare(self) -> None:
        """Make the directory if need be. Raises Misconfigured or Unavailable when it cannot be used."""
        try:
            self._create()
            if not self.root.is_dir():
                raise Misconfigured(f"The data directory {self.root} is a file. Name a folder instead.")
            owner = self.root.stat().st_uid
        except OSError as error:
            raise explain_os_error(error, self.root) from None
        if owner != os.geteuid() and os.geteuid() != 0:
            raise Misconfigured(
                f"The data directory {self.root} belongs to {account_name(owner)}. Run as that account "
                "or set LETHELOG_DATA_DIR to a folder of your own."
            )

    def _create(self) -> None:
        if self.root.exists():
            return
        self.root.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.root.mkdir(mode=0o700)
        except FileExistsError:
            return
        if os.geteuid() == 0:
            # The database server will run as another account, which must get through to its own sub-folders.
            self.root.chmod(0o711)
