"""The operating-system account the database server runs as.

PostgreSQL refuses to run as root, so root starts it as an unprivileged account.
"""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from ...domain.errors import Misconfigured
from .failure import account_name

_DEFAULT_FOR_ROOT = "nobody"


@dataclass(frozen=True)
class Account:
    """Who a child process is to be."""

    name: str
    uid: int
    gid: int

    @property
    def is_this_process(self) -> bool:
        """Whether no change of account is needed."""
        return self.uid == os.geteuid()

    @property
    def as_user(self) -> int | None:
        """The argument ``user`` of ``subprocess``; None where no change is needed."""
        return None if self.is_this_process else self.uid

    @property
    def as_group(self) -> int | None:
        """The argument ``group`` of ``subprocess``."""
        return None if self.is_this_process else self.gid

    @property
    def as_groups(self) -> list[int] | None:
        """The argument ``extra_groups`` of ``subprocess``: the account gets none of root's groups."""
        return None if self.is_this_process else []

    def own(self, path: Path) -> None:
        """Give ``path`` to this account, where that takes doing."""
        if not self.is_this_process:
            os.chown(path, self.uid, self.gid)

    def may(self, path: Path, mode: int) -> bool:
        """Whether this account has the right ``mode`` (as of ``os.access``) on ``path``.

        Asked of the kernel by a forked process that became the account, so that parents, access lists and mount
        options all count. Call it only from a process without threads.
        """
        if self.is_this_process:
            return os.access(path, mode)
        child = os.fork()
        if child == 0:
            answer = 1
            try:
                os.setgroups([])
                os.setgid(self.gid)
                os.setuid(self.uid)
                answer = 0 if os.access(path, mode) else 1
            finally:
                os._exit(answer)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def account_for(cluster: Path) -> Account:
    """The account for the database files in ``cluster``: their owner's, or for new ones the configured one.

    Raises Misconfigured when there is no such account or it is root.
    """
    if os.geteuid() != 0:
        return Account(account_name(os.geteuid()), os.geteuid(), os.getegid())
    if (cluster / "PG_VERSION").exists():
        owner = cluster.stat()
        if owner.st_uid == 0:
            raise Misconfigured(
                f"The database files in {cluster} belong to root, as whom PostgreSQL does not run. "
                f"Give them to an unprivileged account: chown -R {_DEFAULT_FOR_ROOT} {cluster}"
            )
        return Account(account_name(owner.st_uid), owner.st_uid, owner.st_gid)
    name = os.environ.get("LETHELOG_POSTGRES_OS_USER") or _DEFAULT_FOR_ROOT
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise Misconfigured(
            f"There is no account {name!r} to run PostgreSQL as (it does not run as root). "
            "Set LETHELOG_POSTGRES_OS_USER to an unprivileged account."
        ) from None
    if entry.pw_uid == 0:
        raise Misconfigured(
            f"LETHELOG_POSTGRES_OS_USER names {name!r}, which is root. Name an unprivileged account."
        )
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
