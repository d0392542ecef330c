"""What `doctor` says of erasures: those that are not finished, and the file that outlives the database."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from ...domain.errors import LethelogError
from .checks import Check
from .output import counted

if TYPE_CHECKING:
    from ...streams.database import Database
    from ..settings import Settings
    from .standing import Standing


async def check_erasures(
    settings: "Settings", database: "Database", standing: "Standing"
) -> AsyncGenerator[Check]:
    """Erasures that were asked for and are not verified, and whether the ledger can be read."""
    from ...streams.erasure_ledger import Ledger

    try:
        entries = Ledger(settings.ledger_file).read()
    except LethelogError as error:
        yield Check("erasure ledger", "fault", error.message)
        return
    if standing.head is None:
        return
    async with database.connection() as connection:
        cursor = await connection.execute("select to_regclass('lethelog.erasing') is not null")
        if await cursor.fetchone() != (True,):
            return
        cursor = await connection.execute(
            "select (select count(*) from lethelog.claims where kind = 'open-erasure'), "
            "(select epoch from lethelog.erasing), (select count(*) from lethelog.claims c "
            "where c.kind = 'erasure' and c.holder <> all(%s) and exists (select from lethelog.events e "
            "where e.tenant = c.tenant and e.stream = c.holder and e.name = 'erasure.performed'))",
            ([entry.erasure for entry in entries],),
        )
        row = await cursor.fetchone()
    unfinished, epoch, missing = row or (0, 0, 0)
    if missing:
        fix = (
            "Put it back from your backup, or name it with LETHELOG_ERASURE_LEDGER; what the log knows of is "
            "written to it by: lethelog erase ledger --complete"
        )
        says = (
            f"{settings.ledger_file} lacks {counted(missing, 'erasure')} on record: lines were cut off "
            "its end, or that was done beside another file"
            if entries
            else f"{settings.ledger_file} is missing or empty, with {counted(missing, 'erasure')} on record"
        )
        yield Check("erasure ledger", "fault", says, fix)
    else:
        says = (
            f"{settings.ledger_file}, {counted(len(entries), 'entry')}; keep a copy elsewhere"
            if entries
            else "made at first use"
        )
        yield Check("erasure ledger", "ok" if entries else "idle", says)
    if unfinished:
        fix = "See what remains: lethelog erase list --unfinished; at once: lethelog erase retry ID"
        yield Check("erasures", "fault", f"not verified yet: {counted(unfinished, 'erasure')}", fix)
    else:
        yield Check("erasures", "ok" if epoch else "idle", "none is unfinished")
