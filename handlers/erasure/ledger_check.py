"""What of the ledger's erasures is there again, since a database was put back from before them."""

from collections.abc import Sequence
from uuid import UUID

from ...streams.database import Connection
from ...streams.erasure_ledger import Entry

_BACK = """
    select number from unnest(%(numbers)s::int[], %(tenants)s::uuid[], %(memories)s::uuid[]) x(number, tenant, id)
        join lethelog_vault.data_keys k on k.tenant = x.tenant and k.key_id = x.id
    union
    select number from unnest(%(named)s::int[], %(of)s::uuid[], %(names)s::uuid[]) x(number, tenant, id)
        join lethelog.directory d on d.tenant = x.tenant and d.id = x.id
    union
    select number from unnest(%(whole)s::int[], %(all_of)s::uuid[]) x(number, tenant)
        where exists (select from lethelog_vault.data_keys k where k.tenant = x.tenant)
        or exists (select from lethelog.directory d where d.tenant = x.tenant)
        or exists (select from lethelog_vault.tenant_keys t where t.tenant = x.tenant and t.wrapped <> '')
"""


async def find_back(connection: Connection, entries: Sequence[Entry]) -> list[Entry]:
    """Those of which a key or a name is there, in the order of the ledger. One query, however many there are."""
    memories = [(n, one.tenant, memory) for n, one in enumerate(entries) for memory in one.memories]
    names = [(n, one.tenant, name) for n, one in enumerate(entries) for name in one.names]
    whole = [(n, one.tenant) for n, one in enumerate(entries) if one.everything]
    numbers, tenants, ids = _columns(memories)
    named, of, name_ids = _columns(names)
    cursor = await connection.execute(
        _BACK,
        {
            "numbers": numbers,
            "tenants": tenants,
            "memories": ids,
            "named": named,
            "of": of,
            "names": name_ids,
            "whole": [n for n, _ in whole],
            "all_of": [tenant for _, tenant in whole],
        },
    )
    found = {row[0] for row in await cursor.fetchall()}
    return [one for n, one in enumerate(entries) if n in found]


def _columns(rows: Sequence[tuple[int, UUID, UUID]]) -> tuple[list[int], list[UUID], list[UUID]]:
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
