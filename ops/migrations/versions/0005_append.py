"""The append function at a lower price, for calls of one unit and of many."""

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0005_append.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    before = Path(__file__).with_name("0003_chain.sql").read_text()
    append = before[before.index("create function lethelog.append(") : before.index("revoke all on function")]
    op.get_bind().exec_driver_sql(
        append.replace("create function", "create or replace function").replace("%", "%%")
    )
