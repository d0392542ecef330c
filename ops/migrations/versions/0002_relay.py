"""How far the relay has carried the log to a broker."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0002_relay.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    op.get_bind().exec_driver_sql("drop table lethelog.relay")
