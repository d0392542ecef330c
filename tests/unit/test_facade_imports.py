"""The facades are there for whoever asks for them, and cost nobody else anything."""

import subprocess
import sys


def run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_importing_the_package_loads_no_facade_and_nothing_that_one_needs():
    code = (
        "import sys, lethelog; print([name for name in sys.modules if 'langgraph' in name or 'facades' in name])"
    )
    assert run(code) == "[]"
    assert "'lethelog.handlers.facades.langgraph_store'" in run(
        code.replace("; print", "; lethelog.LethelogStore; print")
    )


def test_the_facade_of_mem0_needs_neither_mem0_nor_langgraph():
    code = "import sys; from lethelog import Mem0Memory, AsyncMem0Memory; print({'mem0', 'langgraph'} & set(sys.modules))"
    assert run(code) == "set()"


def test_without_the_extra_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['langgraph'] = None\n"
        "try:\n    from lethelog import LethelogStore\n"
        "except ImportError as error:\n    print(error)"
    )
    assert "pip install 'lethelog[langgraph]'" in run(code)
