"""Where data lives when nobody says otherwise."""

import os
from pathlib import Path

import platformdirs

_AS_ROOT = Path("/var/lib/lethelog")


def default_data_dir() -> Path:
    """``LETHELOG_DATA_DIR``, or for root ``/var/lib/lethelog``, or the platform's user data folder."""
    configured = os.environ.get("LETHELOG_DATA_DIR")
    if configured:
        return Path(configured).expanduser()
    return _AS_ROOT if os.geteuid() == 0 else platformdirs.user_data_path("lethelog", appauthor=False)
