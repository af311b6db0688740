"""Try a built wheel in empty environments: its core dependencies alone, each Python of this machine that it supports.

`python tests/smoke.py dist/jnrrdz-*.whl` makes an environment for each, installs the wheel with the pinned versions,
and indexes, shows and reads an image that tifffile wrote.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.12", "3.13", "3.14", "3.15")

READ = """
import sys, numpy, tifffile, xarray, jnrrdz
pixels = numpy.arange(200 * 300, dtype="u2").reshape(200, 300)
tifffile.imwrite("a.tif", pixels, tile=(64, 64), compression="zlib", predictor=True)
jnrrdz.index("a.tif", "library.json")
assert (xarray.open_dataset("library.json")["data"].values == pixels).all()
assert (xarray.open_dataset("a.tif", engine="jnrrdz")["data"].values == pixels).all()
"""


def pythons() -> dict[str, str]:
    """Return interpreters by version: this one, those on the path, and pyenv's."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        places = [*sorted(pyenv.glob(f"{version}.*/bin/python3")), shutil.which(f"python{version}")]
        for place in filter(None, places):
            runs = subprocess.run([place, "-c", "import venv, ensurepip"], capture_output=True, check=False)
            if runs.returncode == 0:
                found.setdefault(version, str(place))
    return found


def smoke(python: str, wheel: Path) -> str:
    """Return the version that the wheel says it has, after a walk through it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([python, "-m", "venv", place / "venv"], check=True)
        programs = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

        def run(program: str, *arguments: str | Path) -> str:
            command = [programs / program, *arguments]
            done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{program} {' '.join(map(str, arguments[:3]))}\n{done.stderr}")
            return done.stdout

        pins = ROOT / "constraints.txt"
        run("python", "-m", "pip", "install", "--quiet", "--constraint", pins, wheel)
        run("python", "-W", "error", "-c", READ)
        run("jnrrdz", "index", "a.tif", "-o", "command.json")
        run("jnrrdz", "info", "command.json")
        run("jnrrdz", "codecs")
        if (place / "command.json").read_bytes() != (place / "library.json").read_bytes():
            sys.exit("the command and the library wrote different manifests")
        return run("jnrrdz", "--version").strip()


def main() -> None:
    """Try the wheel with every Python that is here."""
    wheel = Path(sys.argv[1]).resolve()
    for version, python in sorted(pythons().items()):
        sys.stdout.write(f"Python {version}: {smoke(python, wheel)}\n")


if __name__ == "__main__":
    main()
