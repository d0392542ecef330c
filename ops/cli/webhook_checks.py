"""What `doctor` says of webhooks: those that fail, those that were disabled for it, and messages nobody sends."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from .checks import Check
from .output import counted

if TYPE_CHECKING:
    from ...streams.database import Database

_LATE = "10 minutes"
"""A message that was due so long ago is not being sent by anybody."""


async def check_webhooks(database: "Database") -> AsyncGenerator[Check]:
    """How all tenants' webhooks do; nothing where there is none."""
    async with database.connection() as connection:
        cursor = await connection.execute("select to_regclass('lethelog.webhook_health') is not null")
        if await cursor.fetchone() != (True,):
            return
        cursor = await connection.execute(
            "select (select count(*) from lethelog.claims where kind = 'webhook'), "
            "(select count(*) from lethelog.webhook_health h where h.failing_since is not null and exists "
            "(select from lethelog.claims c where c.tenant = h.tenant and c.kind = 'webhook' "
            "and c.holder = h.webhook)), "
            "(select count(*) from lethelog.webhook_deliveries where status = 'pending' "
            f"and next_attempt < now() - interval '{_LATE}')"
        )
        there, failing, late = await cursor.fetchone() or (0, 0, 0)
    if late:
        fix = "Start a worker: lethelog up, or on servers of your own: lethelog worker --roles webhooks"
        yield Check("webhooks", "warning", f"{counted(late, 'message')} due for more than {_LATE}", fix)
    elif failing:
        fix = "See each tenant's: lethelog webhook list; then: lethelog webhook deliveries ID"
        yield Check("webhooks", "warning", f"{failing} of {there} fail", fix)
    elif there:
        yield Check("webhooks", "ok", f"{there}, none fails")
