"""Fail where a conformance run is worse than `conformance_floors.json` allows.

`python tests/check_floors.py CORPUS RESULTS` reads the lines that conformance.py wrote with --out.
`exact` is the least share of files read exactly, `wrong` and `error` the most files of that verdict.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

FLOORS = Path(__file__).parent / "conformance_floors.json"


def faults(verdicts: list[str], floor: dict[str, float]) -> list[str]:
    """Return what is below the floor, in words; empty where nothing is."""
    if not verdicts:
        return ["no file was read"]
    count = Counter(verdicts)
    found = [
        f"{count[name]} {name}, at most {floor[name]} allowed"
        for name in ("wrong", "error")
        if count[name] > floor[name]
    ]
    exact = count["exact"] / len(verdicts)
    if exact < floor["exact"]:
        found.append(f"{exact:.1%} exact, at least {floor['exact']:.1%} needed")
    return found


def main() -> None:
    """Say whether the run is above the floor, and end with exit code 1 where it is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", help="its name in conformance_floors.json")
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    floors = json.loads(FLOORS.read_text(encoding="utf-8"))
    if options.corpus not in floors:
        sys.exit(f"{options.corpus}: {FLOORS.name} sets no floor for it, only for {', '.join(floors)}")
    rows = [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    found = faults([row["verdict"] for row in rows if row["readable"]], floors[options.corpus])
    if found:
        sys.exit(f"{options.corpus}: below the floor: {'; '.join(found)}")
    sys.stdout.write(f"{options.corpus}: at or above the floor\n")


if __name__ == "__main__":
    main()
