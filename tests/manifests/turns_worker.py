"""A process that runs commands of jnrrdz, and pauses at random between its writes.

It reads a line of JSON for each command, `{"words": [...], "seed": n}`, and answers with
`{"exit": n, "said": text}`.
"""

import asyncio
import json
import os
import random
import sys
import time
from contextlib import suppress

from click.testing import CliRunner

from jnrrdz.cli import cli
from jnrrdz.manifests import atomic, parquet

LONGEST = 0.04
CHANCE = 0.4
RECORD = 3
"""Chunks in a record of Parquet, so that a manifest has several."""


class Pauses:
    """Waits, or not, before and after a function."""

    def __init__(self) -> None:
        self.random = random.Random()

    def pause(self) -> None:
        """Wait, in some of the cases."""
        if self.random.random() < CHANCE:
            time.sleep(self.random.uniform(0, LONGEST))

    def put_into(self, place: object, name: str) -> None:
        """Let a function pause."""
        function = getattr(place, name)

        def paused(*arguments: object, **options: object) -> object:
            self.pause()
            result = function(*arguments, **options)
            self.pause()
            return result

        setattr(place, name, paused)

    def put_into_awaited(self, place: type, name: str) -> None:
        """Let an asynchronous method pause."""
        method = getattr(place, name)

        async def paused(*arguments: object, **options: object) -> object:
            if self.random.random() < CHANCE:
                await asyncio.sleep(self.random.uniform(0, LONGEST))
            result = await method(*arguments, **options)
            if self.random.random() < CHANCE:
                await asyncio.sleep(self.random.uniform(0, LONGEST))
            return result

        setattr(place, name, paused)


def answer(members: dict[str, object]) -> None:
    """Write a line of JSON."""
    sys.stdout.write(json.dumps(members) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run what is asked for until there is no more."""
    pauses = Pauses()
    for name in ("link", "rename", "replace"):
        pauses.put_into(os, name)
    for name in ("put", "put_bytes", "remove"):
        pauses.put_into(atomic.OutputPath, name)
    with suppress(ImportError):
        from icechunk import Repository, Session  # noqa: PLC0415  an extra
        from s3fs import S3FileSystem  # noqa: PLC0415  the same

        pauses.put_into(Session, "commit")
        pauses.put_into(Repository, "save_config")
        for name in ("_put_file", "_pipe_file"):
            pauses.put_into_awaited(S3FileSystem, name)
    parquet.write.__kwdefaults__["record_size"] = RECORD
    answer({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        pauses.random.seed(asked["seed"])
        time.sleep(pauses.random.uniform(0, LONGEST))
        result = CliRunner().invoke(cli, asked["words"])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        answer({"exit": result.exit_code, "said": result.output})


main()
