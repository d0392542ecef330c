"""Who may read the tables of a read model: a tenant's door its own rows, the worker all (ADR 8).

The runner, a rebuild, a comparison and a replay protect every schema they make with `protect`, so that no
projection needs to think of it, also one that a user wrote.
"""

from collections.abc import Sequence

from ..domain.errors import Misconfigured
from ..streams.column_statistics import unsampled_statement
from ..streams.database import BACKUP, DOOR, Connection
from ..streams.row_security import lift_statement, protect_statement, untenanted
from .projection import Projection


async def protect(connection: Connection, schemas: Sequence[str], shared: Sequence[str] = ()) -> None:
    """Force row-level security on every table of these schemas that has a tenant, let doors read them, and let
    PostgreSQL keep no samples of what they say.

    ``shared`` are tables without a tenant that doors read whole; all others are the worker's alone. For a schema
    whose loading is over: COPY is refused afterwards. Inside a transaction of the caller's.
    """
    await connection.execute(protect_statement(schemas))
    await connection.execute(_open_statement(schemas, shared))
    await connection.execute(unsampled_statement(schemas))


async def lift(connection: Connection, schema: str) -> None:
    """Take doors and row-level security away from a schema that nobody reads yet, so that it can be loaded."""
    await connection.execute(f"revoke all on schema {schema} from {DOOR}")
    await connection.execute(lift_statement([schema]))


async def refuse_undeclared(connection: Connection, projection: Projection, schema: str) -> None:
    """Raise `Misconfigured` for a table of a read model that has no tenant and is not declared to need none."""
    cursor = await connection.execute(untenanted([schema]))
    without = {table for _, table in await cursor.fetchall()}
    undeclared = sorted(without & set(projection.tables) - set(shared_tables(projection)))
    if undeclared:
        raise Misconfigured(
            f"the read model {projection.name} has tables without a column tenant of type uuid: "
            f"{', '.join(undeclared)}. Give them one, so that every tenant sees its own rows only, or name those "
            "that concern no tenant in an attribute shared_tables of the projection",
            read_model=projection.name,
        )


def shared_tables(projection: Projection) -> tuple[str, ...]:
    """Its tables that concern no tenant, by an attribute ``shared_tables`` that it need not have."""
    return tuple(getattr(projection, "shared_tables", ()))


def _open_statement(schemas: Sequence[str], shared: Sequence[str]) -> str:
    """SQL that lets doors, and backups where there is that role, read what is protected or shared."""
    of_schemas = "array[" + ", ".join(f"'{one}'" for one in schemas) + "]::name[]"
    of_shared = "array[" + ", ".join(f"'{one}'" for one in shared) + "]::name[]"
    return f"""
        do $open$
        declare
            reader name;
            found record;
        begin
            for found in
                select c.oid::regclass as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = any({of_schemas}) and c.relkind = 'v'
                and not coalesce(c.reloptions @> array['security_invoker=true'], false)
            loop
                execute format('alter view %s set (security_invoker = true)', found.name);
            end loop;
            for reader in select rolname from pg_roles where rolname in ('{DOOR}', '{BACKUP}') loop
                for found in
                    select nspname as name from pg_namespace
                    where nspname = any({of_schemas}) and not has_schema_privilege(reader, oid, 'usage')
                loop
                    execute format('grant usage on schema %I to %I', found.name, reader);
                end loop;
                for found in
                    select c.oid::regclass as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = any({of_schemas}) and not has_table_privilege(reader, c.oid, 'select')
                    and (reader = '{BACKUP}' and c.relkind in ('r', 'p') or c.relkind = 'v'
                         or c.relrowsecurity or c.relname = any({of_shared}))
                loop
                    execute format('grant select on %s to %I', found.name, reader);
                end loop;
            end loop;
        end $open$
    """
