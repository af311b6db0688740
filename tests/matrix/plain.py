"""The process without jnrrdz that reads what doors write; one for a whole session."""

import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path


class PlainReaderError(Exception):
    """The process without jnrrdz could not read something."""


class PlainReader:
    """Calls functions of `plain_child` there."""

    def __init__(self) -> None:
        child = Path(__file__).with_name("plain_child.py")
        root = Path(__file__).parents[2]
        script = f"import sys, runpy; sys.path.insert(0, {str(root)!r}); "
        script += f"runpy.run_path({str(child)!r}, run_name='__main__')"
        self._process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def call(self, function: str, *arguments):
        """Return what a function there returns."""
        pickle.dump((function, arguments), self._process.stdin)
        self._process.stdin.flush()
        is_fine, answer = pickle.load(self._process.stdout)
        if not is_fine:
            raise PlainReaderError(answer)
        return answer

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


@cache
def plain_reader() -> PlainReader:
    """Return the process, which is started at the first call."""
    return PlainReader()
