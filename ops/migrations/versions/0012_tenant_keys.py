"""A tenant's key can be replaced while everything runs."""

from pathlib import Path

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0012_tenant_keys.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    """Raises where a key was replaced: what is wrapped under the new one, the revision before cannot read."""
    down = Path(__file__).with_name("0012_tenant_keys.down.sql").read_text()
    op.get_bind().exec_driver_sql(down.replace("%", "%%"))
