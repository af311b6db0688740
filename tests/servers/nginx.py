"""nginx serving one folder three times: with ranges, without, and behind a password.

The program is Debian's package `nginx`, installed, or
unpacked somewhere that the variable JNRRDZ_NGINX names.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.servers import ports

USER, PASSWORD = "reader", "nginxSecretExample"

_CONFIGURATION = """\
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format plain '$connection\t$status\t$request_method\t$request_uri\t$http_range\t$http_if_match';
  access_log {folder}/access.log plain;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_requests 100000;
  root {folder}/files;
  server {{ listen 127.0.0.1:{ranged}; }}
  server {{ listen 127.0.0.1:{whole}; max_ranges 0; }}
  server {{ listen 127.0.0.1:{private}; auth_basic files; auth_basic_user_file {folder}/passwords; }}
}}
"""


def program() -> str | None:
    """Return the path of nginx."""
    given = os.environ.get("JNRRDZ_NGINX")
    return given or shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True)
class Answered:
    """One line of the access log."""

    connection: int
    status: int
    method: str
    path: str
    range: str
    if_match: str


@dataclass
class Nginx:
    """A running server; what is put in `files` is served at once."""

    folder: Path
    port: int
    whole_port: int
    private_port: int
    _seen: int = 0
    _marks: int = 0

    @property
    def files(self) -> Path:
        """The folder that is served."""
        return self.folder / "files"

    @property
    def url(self) -> str:
        """Where ranges are answered, and If-Match honoured."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url_without_ranges(self) -> str:
        """Where every GET is answered with the whole file and status 200."""
        return f"http://127.0.0.1:{self.whole_port}"

    @property
    def url_private(self) -> str:
        """Where `USER` and `PASSWORD` are asked for."""
        return f"http://127.0.0.1:{self.private_port}"

    def answered(self) -> list[Answered]:
        """Return the requests answered since this was last asked."""
        mark = f"/mark-{self._marks}"
        self._marks += 1
        ports.status(self.url + mark)  # nginx logs after it answers, one request after another
        while mark not in (text := (self.folder / "access.log").read_text()):
            time.sleep(0.001)
        lines = text.splitlines()
        new, self._seen = lines[self._seen :], len(lines)
        rows = [line.split("\t") for line in new]
        found = [Answered(int(connection), int(status), *rest) for connection, status, *rest in rows]
        return [each for each in found if each.path != mark]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Nginx]:
    """Start a server that keeps all its files in a folder, and end it afterwards."""
    numbers = ports.free(3)
    server = Nginx(folder, *numbers)
    server.files.mkdir()
    (folder / "passwords").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n")
    configuration = folder / "nginx.conf"
    named = dict(zip(("ranged", "whole", "private"), numbers, strict=True))
    configuration.write_text(_CONFIGURATION.format(folder=folder, **named))
    command = [program(), "-p", str(folder), "-c", str(configuration), "-e", str(folder / "error.log")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ports.wait_for_http(f"{server.url}/none", process, statuses={404})
        server.answered()
        yield server
    finally:
        ports.end(process)
