"""Free ports, and waiting until a server answers on one."""

import contextlib
import socket
import subprocess
import time
import urllib.error
import urllib.request

_PAUSE = 0.02


def free(count: int = 1) -> list[int]:
    """Return ports that nothing listens on now; all are told apart by being held together."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_for_http(url: str, process: subprocess.Popen[bytes], *, statuses: set[int], seconds: float = 30) -> None:
    """Return once `url` answers with one of the statuses; fail if the process ends or the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with code {process.returncode} before it answered at {url}")
        if status(url) in statuses:
            return
        time.sleep(_PAUSE)
    raise RuntimeError(f"no answer at {url} within {seconds} s")


def status(url: str) -> int | None:
    """Return the status of a GET, None without an answer."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server that this process started, by its own id."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
