"""Fuzz by coverage: `python tests/fuzz/run.py --minutes 10 [TARGET ...]`, which `make fuzz` does.

Each target has a process of its own, as many at once as there are cores, and an equal share of the time in
CPU-minutes.  What a target finds ends its turn: the input is kept in `--keep`, and this ends with exit code 1.  What
it learns (inputs that reach new code) stays in `.fuzz/TARGET` and is where the next run goes on.  A finding that is
fixed goes into `corpus/TARGET` under a name of its own; one of a codec is kept as a manifest as well, for
`corpus/manifest-json`.
"""

import argparse
import os
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
LEARNT = Path(".fuzz")
TIMEOUT = 20
"""Seconds that one input may take; they are CPU seconds of a machine that does other things too."""

RSS = 2048
"""Megabytes that a target's process may have."""


def fuzz(name: str, arguments: list[str]) -> None:
    """Fuzz a target in this process, until libFuzzer ends it."""
    import atheris  # noqa: PLC0415  Linux has it, and this function alone needs it

    warnings.simplefilter("ignore")
    with atheris.instrument_imports(include=["jnrrdz"]):
        from tests.fuzz import targets  # noqa: PLC0415  instrumented where it is imported

        target, seeds = targets.TARGETS[name], targets.seeds(name)
        for seed in seeds:  # much is imported only where it is needed
            with suppress(targets.jnrrdz.JnrrdzError):
                target(seed)
    from jnrrdz import JnrrdzError  # noqa: PLC0415  see above

    def once(data: bytes) -> None:
        try:
            target(data)
        except JnrrdzError as error:
            assert str(error)  # noqa: PT017  an error is as good as pixels, if it is one of ours

    learnt = LEARNT / name
    learnt.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (learnt / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], str(learnt), *arguments], once)
    atheris.Fuzz()


@dataclass
class Turn:
    """What came of a target's turn."""

    name: str
    runs: int
    coverage: int
    is_finding: bool
    log: str


def turn(name: str, seconds: int, keep: Path) -> Turn:
    """Fuzz a target in a process of its own."""
    limits = [f"-max_total_time={seconds}", f"-timeout={TIMEOUT}", f"-rss_limit_mb={RSS}", "-max_len=16384"]
    command = [sys.executable, __file__, "--one", name, *limits, f"-artifact_prefix={keep}/{name}-"]
    environment = os.environ | {"PYTHONPATH": f"{HERE.parent.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
    log = done.stderr + done.stdout
    counts = [int(count) for count in re.findall(r"^#(\d+)", log, re.MULTILINE)]
    coverage = [int(count) for count in re.findall(r"\bcov: (\d+)", log)]
    return Turn(name, max(counts, default=0), max(coverage, default=0), done.returncode != 0, log)


def main() -> None:
    """Share the time out to the targets, and tell what each came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them where none is named")
    parser.add_argument("--minutes", type=float, default=10, help="of CPU, all targets together")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, default=LEARNT / "findings", metavar="FOLDER")
    options = parser.parse_args()
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415  a target's own process imports it instrumented

    chosen = options.targets or list(TARGETS)
    seconds = max(1, round(options.minutes * 60 / len(chosen)))
    options.keep.mkdir(parents=True, exist_ok=True)
    findings = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in pool.map(lambda name: turn(name, seconds, options.keep), chosen):
            sys.stdout.write(f"{done.name}: {done.runs} inputs, coverage {done.coverage}\n")
            if done.is_finding:
                findings += 1
                (options.keep / f"{done.name}.log").write_text(done.log, encoding="utf-8")
                sys.stdout.write(f"  FOUND, see {options.keep / done.name}.log\n")
            sys.stdout.flush()
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2], sys.argv[3:])
    else:
        main()
