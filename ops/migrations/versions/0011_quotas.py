"""Quotas: how many live memories a tenant may have, and how many it may write in a minute."""

from pathlib import Path

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0011_quotas.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    op.execute("drop function lethelog.append_within_quotas")
    op.execute("drop table lethelog.write_counts")
