"""Several master keys, so that one can be replaced while everything runs."""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0006_master_keys.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    op.get_bind().exec_driver_sql(
        "revoke update (master, wrapped) on lethelog_vault.tenant_keys from lethelog_application;"
        "alter table lethelog_vault.tenant_keys drop column master"
    )
