"""The application's role: it reads the log, appends by the function, and owns the read models; nothing else."""

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_name("0004_roles.sql").read_text().replace("%", "%%"))


def downgrade() -> None:
    op.get_bind().exec_driver_sql(
        "revoke all on all tables in schema lethelog, lethelog_vault from lethelog_application;"
        "revoke all on function lethelog.append from lethelog_application;"
        "revoke all on schema lethelog, lethelog_vault from lethelog_application"
    )
