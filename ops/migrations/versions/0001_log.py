"""The log, its claims and command keys, the vault and the directory."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0001_log.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    op.get_bind().exec_driver_sql(
        "drop schema lethelog_vault cascade;"
        "drop table lethelog.directory, lethelog.commands, lethelog.claims, lethelog.head;"
        "drop table lethelog.events cascade;"
        "drop function lethelog.append, lethelog.refuse_change"
    )
