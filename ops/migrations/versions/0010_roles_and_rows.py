"""A role for each kind of work, and row-level security by tenant: what `protection` makes after every revision."""

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(
        Path(__file__).with_name("0010_roles_and_rows.sql").read_text().replace("%", "%%")
    )


def downgrade() -> None:
    op.get_bind().exec_driver_sql(
        Path(__file__).with_name("0010_roles_and_rows.down.sql").read_text().replace("%", "%%")
    )
