"""Units with quotas share a commit with others."""

from pathlib import Path

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_HERE = Path(__file__).parent


def upgrade() -> None:
    _run((_HERE / "0014_shared_quotas.sql").read_text())


def downgrade() -> None:
    _run((_HERE / "0014_shared_quotas.down.sql").read_text())
    append_and_erase = (_HERE / "0012_tenant_keys.sql").read_text()
    _run(append_and_erase[append_and_erase.index("create or replace function lethelog.append(") :])
    within_quotas = (_HERE / "0011_quotas.sql").read_text()
    _run(within_quotas[within_quotas.index("create function lethelog.append_within_quotas(") :])
    op.execute("grant execute on function lethelog.append to lethelog_appender, lethelog_worker")


def _run(statements: str) -> None:
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
