"""Nothing of the caller's own is looked up inside functions that run as the owner."""

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0007_search_path.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    op.get_bind().exec_driver_sql(
        "alter function lethelog.append set search_path = pg_catalog;"
        "alter function lethelog.refuse_change reset search_path"
    )
