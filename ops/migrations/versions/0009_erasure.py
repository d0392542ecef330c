"""Erasing: destroy keys and names, and let everybody know."""

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0009_erasure.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    op.get_bind().exec_driver_sql(
        "drop function lethelog.erase; drop table lethelog.erasing; drop index lethelog.claims_open_erasures"
    )
