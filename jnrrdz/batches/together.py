"""The manifests of a batch as one, along an axis: kept on the disk as they come, put together by one writer at the end.

May touch merging and a temporary directory.  Workers return manifests and write none; a source that failed is
reported by the batch and left out.  See docs/decisions/004-merge.md for what is put together and how.
"""

import tempfile
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jnrrdz.batches.item import Outcome
from jnrrdz.batches.work import Plan
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.located import literal
from jnrrdz.manifests.forms import format_of
from jnrrdz.sources.url import origin

if TYPE_CHECKING:
    from jnrrdz.commands.merging import Merged


def _merging() -> Any:
    """Return what merges; it brings xarray, which other batches need not wait for."""
    return import_module("jnrrdz.commands.merging")


@dataclass(frozen=True)
class Axis:
    """Along what the sources are put together; the members are those of `merging.merge`."""

    concat_dim: str
    coord_from: str | None = None
    keep_order: bool = False
    skip_mismatched: bool = False

    def check(self, plan: Plan) -> None:
        """Refuse what makes no sense for one output, before anything is read."""
        if plan.resume:
            raise UnsupportedError("resume is for an output for each source; --concat-dim has one", field="--resume")
        if self.coord_from is not None:
            _merging().rule_of(self.coord_from)


@dataclass
class Together:
    """Takes the manifests of a batch, in any order."""

    plan: Plan
    axis: Axis
    output: str
    _folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="jnrrdz-batch-")
    )
    _urls: dict[int, str] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Keep a source's manifest."""
        if outcome.manifest is not None:
            number = outcome.job.number
            self._place(number).write_bytes(outcome.manifest)
            self._urls[number] = literal(outcome.job.found.url)

    def merge(self) -> "Merged":
        """Write the one manifest, of the sources in the order in which they were found."""
        if not self._urls:
            raise JnrrdzError("no source could be read, so there is nothing to put together", url=self.output)
        numbers = sorted(self._urls)
        first = self._urls[numbers[0]]
        made: Merged = _merging().merge(
            [self._place(number) for number in numbers],
            self.output,
            names=[self._urls[number] for number in numbers],
            concat_dim=self.axis.concat_dim,
            coord_from=self.axis.coord_from,
            keep_order=self.axis.keep_order,
            skip_mismatched=self.axis.skip_mismatched,
            allow=("*",),  # they are our own, and name what was just read
            format=self.plan.form,
            single_range=self.plan.single_range,
            relative=self.plan.relative,
            overwrite=self.plan.overwrite,
            source_options=self.plan.source_options(first),
            target_options=self._target_options(first),
        )
        return made

    def _target_options(self, source: str) -> dict[str, object] | None:
        """Return the options for the output; an Icechunk repository takes its sources' endpoint from them too."""
        own = self.plan.output_options(self.output)
        if own is None and origin(source) is None and (self.plan.form or format_of(self.output)) == "icechunk":
            own = self.plan.source_options(source)
        return None if own is None else dict(own)

    def close(self) -> None:
        """Remove what was kept."""
        self._folder.cleanup()

    def _place(self, number: int) -> Path:
        return Path(self._folder.name) / f"{number:09}.json"
