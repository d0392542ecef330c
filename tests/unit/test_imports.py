"""What a command loads before it does anything: everybody pays for it, every time."""

import subprocess
import sys

import pytest

HEAVY = (
    "alembic",
    "faststream",
    "fastembed",
    "httpx2",
    "jwt",
    "numpy",
    "onnxruntime",
    "psycopg",
    "sqlalchemy",
    "tokenizers",
)


@pytest.mark.parametrize(
    ("loaded", "needed"),
    [
        ("lethelog.ops.cli.app", ()),
        # Vectors and connections are what nearly every command works with.
        ("lethelog.ops.local", ("numpy", "psycopg")),
        # The positive control: who runs consumers, or checks tokens of an issuer, does load what that takes.
        ("lethelog.streams.consumers", ("faststream", "psycopg")),
        ("lethelog.handlers.access.jwt_verifier", ("httpx2", "jwt", "numpy", "psycopg")),
    ],
)
def test_nothing_heavy_is_loaded_but_what_is_needed(loaded: str, needed: tuple[str, ...]):
    code = f"import sys, {loaded}; print(*[name for name in {HEAVY} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert tuple(ran.stdout.split()) == needed
