"""The append function at a lower price, most of all for a lone unit and for large ones."""

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0008_append.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    before = Path(__file__).with_name("0005_append.sql").read_text()
    op.get_bind().exec_driver_sql(
        before.replace("set search_path = pg_catalog\n", "set search_path = pg_catalog, pg_temp\n").replace(
            "%", "%%"
        )
    )
