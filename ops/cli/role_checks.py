"""The checks of `doctor` that look at roles and row-level security (ADR 8)."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from .checks import Check

if TYPE_CHECKING:
    from ...streams.database import Connection


async def check_roles(connection: "Connection") -> AsyncGenerator[Check]:
    """Whether the roles are as they were made, and every table that a door may enter is protected.

    Nothing where no log was set up yet, or one of a time before the roles.
    """
    from ...streams.database import BACKUP, DOOR
    from ...streams.row_security import ARE_WORDS_BY_INDEX, OPEN_TABLES
    from ..migrations.roles import ROLES

    cursor = await connection.execute("select to_regprocedure('lethelog.position_at(timestamptz)') is not null")
    if await cursor.fetchone() != (True,):
        return
    cursor = await connection.execute(
        "select x.name from unnest(%s::name[]) x(name) left join pg_roles r on r.rolname = x.name "
        "where r.oid is null or r.rolsuper or r.rolbypassrls order by 1",
        (list(ROLES),),
    )
    wrong = [name for (name,) in await cursor.fetchall()]
    cursor = await connection.execute(OPEN_TABLES)
    opened = [name for (name,) in await cursor.fetchall()]
    if wrong:
        fix = f"Let an administrator run: alter role {wrong[0]} nosuperuser nobypassrls (or create it)"
        yield Check("roles", "fault", f"{', '.join(wrong)} passes row-level security, or is missing", fix)
    if opened:
        fix = (
            f"Stop the doors; as the owner: alter table {opened[0]} enable row level security, "
            "force row level security; and drop every policy but door, worker and functions"
        )
        yield Check("rows", "fault", f"{DOOR} sees all tenants' rows of {', '.join(opened[:5])}", fix)
    if not wrong and not opened:
        yield Check("roles", "ok", "every table with a tenant shows a door that tenant's rows only")
    if await (await connection.execute(ARE_WORDS_BY_INDEX)).fetchone() != (True,):
        fix = "Let a superuser run: alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof"
        yield Check("words", "warning", "a search compares the words of all of a tenant's memories", fix)
    cursor = await connection.execute(
        "select exists (select from pg_roles where rolname = %s and rolbypassrls)", (BACKUP,)
    )
    if await cursor.fetchone() != (True,):
        fix = f"To dump without a superuser, let one run: create role {BACKUP} nologin bypassrls"
        yield Check("backups", "idle", f"there is no role {BACKUP}", fix)
