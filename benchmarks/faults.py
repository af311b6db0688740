"""Many small COGs through a proxy that breaks one request in seven, beside the same without faults.

`python -m benchmarks.faults [--count 2000] [--rounds 2] [--server nginx|seaweed] [--seed 1]` from the checkout.
Both runs pass through the proxy,
so that its own cost is in both; every manifest has to be the same in both, or the program ends with code 1.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.many import OURS, copies
from tests.servers import nginx, seaweed

CLEAN = {"latency": 0.02}
FAULTY = {**CLEAN, "unavailable": 0.1, "reset": 0.02, "truncate": 0.02, "stall": 0.01}

type Place = tuple[int, list[str], dict[str, str]]
"""A server's port, its URLs with `{proxy}` for the proxy's, and variables, with the same."""


@contextmanager
def on_nginx(folder: Path, count: int) -> Iterator[Place]:
    """Give files that nginx serves."""
    with nginx.running(folder) as server:
        names = [name for name, data in copies(folder, count) if (server.files / name).write_bytes(data)]
        yield server.port, ["{proxy}/" + name for name in names], {}


@contextmanager
def on_seaweed(folder: Path, count: int) -> Iterator[Place]:
    """Give objects on SeaweedFS."""
    with seaweed.running(folder) as server:
        bucket = server.make_bucket()
        names = [name for name, data in copies(folder, count) if server.put(bucket, name, data)]
        variables = {**server.environment(), "AWS_ENDPOINT_URL": "{proxy}"}
        yield server.port, [f"s3://{bucket}/{name}" for name in names], variables


SERVERS = {"nginx": on_nginx, "seaweed": on_seaweed}


def measured(place: Place, faults: dict[str, float], seed: int, work: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Return what one run took, with what the proxy saw, and its manifests without the proxy's name."""
    port, urls, variables = place
    options = [f"--{name}={value}" for name, value in faults.items()]
    command = [sys.executable, "-m", "tests.servers.proxy", str(port), *options, f"--seed={seed}"]
    out = Path(tempfile.mkdtemp(dir=work))
    listed = out / "list.txt"
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        url = proxy.stdout.readline().strip()
        listed.write_text("\n".join(each.format(proxy=url) for each in urls), encoding="utf-8")
        given = {name: value.format(proxy=url) for name, value in variables.items()}
        done = subprocess.run(
            [sys.executable, "-c", OURS, str(listed), str(out)],
            env={**os.environ, **given},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        proxy.stdin.write("count\n")
        proxy.stdin.flush()
        seen = json.loads(proxy.stdout.readline())
        proxy.stdin.close()
    if done.returncode:
        sys.exit(done.stderr)
    written = {path.name: path.read_text(encoding="utf-8").replace(url, "") for path in out.glob("*.json")}
    return {**json.loads(done.stdout.strip().splitlines()[-1]), **seen}, written


def main() -> None:
    """Measure in turns, compare the manifests, and print the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", action="append", choices=list(SERVERS))
    given = parser.parse_args()
    for name in given.server or SERVERS:
        with tempfile.TemporaryDirectory() as work, SERVERS[name](Path(work), given.count) as place:
            clean, faulty = [], []
            for number in range(given.rounds):
                cost, right = measured(place, CLEAN, given.seed, Path(work))
                clean.append(cost)
                cost, found = measured(place, FAULTY, given.seed + number, Path(work))
                faulty.append(cost)
                if len(right) != given.count or found != right:
                    sys.exit(f"{name}: {sum(found.get(key) != right[key] for key in right)} manifests are not the same")
            show(name, given.count, clean, faulty)


def show(name: str, count: int, clean: list[dict[str, float]], faulty: list[dict[str, float]]) -> None:
    """Print the best of the runs without faults beside each run with them."""
    best = min(run["seconds"] for run in clean)
    print(f"{name}: {count} files, 64 at once; without faults {best:.2f} s, {count / best:.0f} files/s", flush=True)
    for run in faulty:
        seen = ", ".join(f"{times} {fault}" for fault, times in dict(run["faults"]).items())  # type: ignore[call-overload]
        print(
            f"  with faults {run['seconds']:.2f} s, x{best / run['seconds']:.2f} of the throughput; all right; {seen}",
            flush=True,
        )


if __name__ == "__main__":
    main()
