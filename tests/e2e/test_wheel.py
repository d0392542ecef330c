"""A stranger's installation: the wheel in an empty environment."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "handlers" / "page"


def run(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(one) for one in arguments],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source") / "clone"
    # Built from a copy, so that nothing of the build stays in the checkout.
    files = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.split("\0")
    for name in filter(None, files):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            target.write_bytes((ROOT / name).read_bytes())
    # The environment's own setuptools, so that building fetches nothing.
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source, cwd=out)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    [made] = out.glob("*.whl")
    return made


def test_every_package_and_data_file_is_in_the_wheel(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    packages = {
        path.parent.relative_to(ROOT).as_posix()
        for layer in ("domain", "streams", "projections", "handlers", "ops")
        for path in (ROOT / layer).rglob("__init__.py")
    }
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert {name.replace(".", "/").removeprefix("lethelog/") for name in listed} - {"lethelog"} >= packages
    for package in packages:
        for path in (ROOT / package).iterdir():
            if path.suffix in {".py", ".sql", ".jsonl", ".txt", ".mako"}:
                assert f"lethelog/{path.relative_to(ROOT).as_posix()}" in inside, path
    for folder in ("templates", "static"):
        of_the_page = {f"lethelog/handlers/page/{folder}/{path.name}" for path in (PAGE / folder).iterdir()}
        assert of_the_page and of_the_page <= inside
    assert {"lethelog/__init__.py", "lethelog/__main__.py", "lethelog/py.typed"} <= inside
    assert not [name for name in inside if name.startswith(("tests/", "lethelog/tests/", "domain/"))]


def test_the_wheel_works_in_an_empty_environment_without_the_servers(wheel: Path, tmp_path: Path):
    """Only what the project depends on is there: version, import and doctor still work."""
    environment = tmp_path / "env"
    assert run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path).returncode == 0
    python = environment / "bin" / "python"
    # Dependencies come from the present environment, less this checkout and the servers, so nothing is fetched.
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    present = Path(next(path for path in sys.path if path.endswith("site-packages")))
    for entry in present.iterdir():
        if not entry.name.startswith(("__editable__", "lethelog", "pixeltable", "nats_server", "_virtualenv")):
            (dependencies / entry.name).symlink_to(entry)
    settings = {
        "PYTHONPATH": str(dependencies),
        "LETHELOG_DATA_DIR": str(tmp_path / "data"),
        "PATH": "/usr/bin:/bin",
    }
    installed = run(python, "-m", "installer", wheel, cwd=tmp_path, **settings)
    assert installed.returncode == 0, installed.stderr
    lethelog = environment / "bin" / "lethelog"
    version = run(lethelog, "--version", cwd=tmp_path, **settings)
    assert version.returncode == 0 and "0.1.0" in version.stdout, version.stderr
    imported = run(
        python,
        "-c",
        "import lethelog; print(lethelog.__file__, lethelog.Memory.__name__)",
        cwd=tmp_path,
        **settings,
    )
    assert imported.returncode == 0 and str(environment) in imported.stdout and "Memory" in imported.stdout, (
        imported.stderr
    )
    doctor = run(lethelog, "doctor", cwd=tmp_path, **settings)
    said = doctor.stdout + doctor.stderr
    assert "lethelog[local]" in said and "Traceback" not in said, said


def test_importing_the_package_loads_nothing_heavy():
    listed = run(
        sys.executable,
        "-c",
        "import sys, lethelog; print([m for m in ('numpy', 'psycopg', 'pydantic', 'typer') if m in sys.modules])",
        cwd=ROOT.parent,
    )
    assert listed.stdout.strip() == "[]", listed.stderr
