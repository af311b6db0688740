"""`jnrrdz serve`: sources and manifests as plain Zarr over HTTP, until it is interrupted.

A module of its own, short as it is: each command stands in one, and imports what it needs when it is called.
"""

import importlib
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from jnrrdz import manifests
from jnrrdz.cli.console import Console, console_of, say
from jnrrdz.cli.options import Reach, access_options, console_options
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.options import LOCAL, ServeOptions
from jnrrdz.sources.url import local_path

EPILOG = """\b
Examples:
  jnrrdz serve scene.tif refs.json
  jnrrdz serve archive/ --port 8000 --codec gzip
  jnrrdz serve s3://bucket/refs.json --host 0.0.0.0 --server-name data.example
"""


@click.command(epilog=EPILOG)
@click.argument("sources", metavar="SRC...", nargs=-1, required=True, type=click.Path())
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 takes a free one.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; any but 127.0.0.1 needs a token."
)
@click.option("--token", help="First part of every path; made up where --host is another address.")
@click.option("--server-name", "names", multiple=True, help="Name that clients use for this machine. Repeatable.")
@click.option(
    "--codec",
    "packing",
    type=click.Choice(["zstd", "gzip", "bytes"]),
    default="zstd",
    show_default=True,
    help="Compression of chunks.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages of this origin read; * for all. Repeatable.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that answer.")
@click.option(
    "--max-age",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="Time for which browsers need not ask again.",
)
@click.option(
    "--no-pyramids", "pyramids", is_flag=True, default=True, flag_value=False, help="Compute no coarser levels."
)
@access_options()
@console_options
@console_of
def serve(console: Console, /, sources: tuple[str, ...], *, reach: Reach, **options: Any) -> None:
    """Serve each SRC (an image, a manifest, or a folder of them) as plain Zarr v3.

    Readers need only the codecs bytes and zstd (or gzip), which zarr-python, tensorstore and others have.
    """
    try:
        importlib.import_module("uvicorn")
        running = importlib.import_module("jnrrdz.server.running")
    except ImportError as error:
        raise UnsupportedError(f"{error.name} is not installed; pip install 'jnrrdz[serve]'", field="serve") from error
    host, port, names, workers = (options.pop(name) for name in ("host", "port", "names", "workers"))
    if host not in LOCAL and options["token"] is None:
        options["token"] = secrets.token_urlsafe(24)
    wanted = ServeOptions(hosts=(*LOCAL, host, *names), access=reach.access(*sources), **options)
    console.hush_icechunk()
    catalog = importlib.import_module("jnrrdz.server.catalog").Catalog(sources, wanted)
    catalog.refresh()
    for entry in catalog.listed.values():
        path = local_path(manifests.manifest.split_version(entry.source)[0])
        if path is not None and not Path(path).exists():
            raise JnrrdzError("not found", url=path)
    listening = running.listening_socket(host, port)
    base = running.base_url(listening, wanted)
    for name in catalog.listed:
        say(f"{base}{name}")
    console.note(f"serving {len(catalog.listed)} at {base}; interrupt to end")
    try:
        running.run(sources, wanted, listening, workers)
    except SystemExit as ended:
        end_at_once(ended.code)
    except KeyboardInterrupt:
        end_at_once(128 + signal.SIGINT)


def end_at_once(code: str | int | None) -> NoReturn:
    """End the process without waiting for threads.

    The interpreter joins the standard library's pools of threads when it ends, and theirs
    may wait for a source that does not answer.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)
