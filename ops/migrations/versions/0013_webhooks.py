"""Webhooks: what was and will be sent to each, and how it goes."""

from pathlib import Path

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0013_webhooks.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    op.execute("drop table lethelog.webhook_deliveries, lethelog.webhook_health")
