"""Tamper evidence: a hash per row and a chained root per commit."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0003_chain.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    first = Path(__file__).with_name("0001_log.sql").read_text()
    append = first[first.index("create function lethelog.append(") :]
    op.get_bind().exec_driver_sql(
        "drop function lethelog.append;"
        "drop table lethelog.roots;"
        "alter table lethelog.events drop column hash;"
        "alter table lethelog.head drop column chain;"
        "drop function lethelog.row_hash;" + append.replace("%", "%%")
    )
