"""A door gives a tenant its first key and no other; a tenant's events are found by an index."""

from pathlib import Path

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0015_doors.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    op.execute("drop index lethelog.events_of_tenant")
    op.execute("drop function lethelog.first_tenant_key")
    op.execute("grant insert on lethelog_vault.tenant_keys to lethelog_door")
