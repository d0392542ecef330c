"""PostgreSQL keeps no samples of wrapped keys and sealed names: what `protection` makes after every revision."""

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing but what follows every revision."""


def downgrade() -> None:
    """An earlier version does without the samples, too."""
