"""A kind of source, and the files and manifests of it that doors are tried with."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import jnrrdz
import numpy as np
from tests.matrix.view import View

DAYS = ("20200101", "20200102")
"""What the two sources of a row have in their names; the second has other pixels."""


@dataclass(frozen=True)
class Row:
    """A kind of source: who writes it, and what a reader of others sees in it."""

    name: str
    """Such as `TIFF deflate`."""

    by: str
    """The software that writes it."""

    write: Callable[[Path, int], None]
    """Writes the source to a path; the number is the seed of its pixels."""

    read: Callable[[Path], View]
    """The view of a reader that shares no code with jnrrdz."""

    reader: str
    """The software that reads it."""

    file: str = "d_{}.tif"
    """The name of the source, with the day in it."""

    variable: str = "data"
    """The variable of the image."""

    bands: tuple[str, ...] = ()
    """Names that the bands have in a cube, where the image itself has none."""

    group: str = ""
    """The group of the full resolution in the tree."""

    levels: tuple[str, ...] = ()
    """The groups of the coarser levels."""

    computed: Callable[[View], tuple[np.ndarray, ...]] | None = None
    """The coarser levels that `serve` computes of a large image."""

    is_same: bool = False
    """Whether both sources have the same pixels, as files of others do."""

    picture: Callable[[Path], np.ndarray] | None = None
    """The picture that `preview` makes, where it is of more than the image."""

    make: Callable[..., object] = jnrrdz.index
    """Writes a manifest of a source: `jnrrdz.convert` of the references of others."""

    traits: frozenset[str] = frozenset()
    """What tables of refusals ask for, such as `bands`, `place` or `our codec`."""

    options: dict[str, object] = field(default_factory=dict)
    """Options of `jnrrdz.index` that belong to the kind."""

    @property
    def served_groups(self) -> tuple[str, ...]:
        """The groups that are served, finest first; computed levels have numbers."""
        return ("0", "1") if self.computed else (self.group, *self.levels)


class Case:
    """The sources of a row and their manifests, each made when it is first used."""

    def __init__(self, row: Row, folder: Path, codecs: str, session) -> None:
        self.row = row
        self.session = session
        self.codecs = codecs
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._outputs = 0

    @cached_property
    def sources(self) -> list[Path]:
        """The two sources, of one form and with different pixels."""
        paths = [self.source_folder(day) / self.row.file.format(day) for day in DAYS]
        for seed, path in enumerate(paths):
            self.row.write(path, seed)
        return paths

    def source_folder(self, day: str) -> Path:
        folder = self.folder / day
        folder.mkdir()
        return folder

    @cached_property
    def views(self) -> list[View]:
        """What the other reader sees in them."""
        return [self.row.read(path) for path in self.sources]

    @property
    def view(self) -> View:
        return self.views[0]

    @property
    def array_paths(self) -> list[str]:
        """The paths of the array of each level in the tree, finest first."""
        groups = (self.row.group, *self.row.levels)
        return [f"{group}/{self.row.variable}".lstrip("/") for group in groups]

    def index(self, form: str = "json", day: int = 0, **options) -> Path:
        """Return the manifest of a source, which is made once."""
        name = "-".join([DAYS[day], *map(str, options.values())])
        path = self.folder / f"{name}.{form}"
        if not path.exists():
            choices = {"codecs": self.codecs, **self.row.options, **options}
            self.row.make(self.sources[day], path, **choices)
        return path

    def has_manifest(self, form: str) -> bool:
        """Return whether the first source was indexed to a form."""
        return (self.folder / f"{DAYS[0]}.{form}").exists()

    def named_manifest(self, name: str) -> Path:
        """Return a JSON manifest of another name, for a server of several."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            shutil.copy(self.index(), path)
        return path

    def output(self, name: str) -> Path:
        """Return a path in a folder of its own, which no other door has."""
        self._outputs += 1
        folder = self.folder / f"out{self._outputs}"
        folder.mkdir()
        return folder / name

    def moved(self) -> Path:
        """Return a source in a separate folder, for doors that change it."""
        path = self.output(self.row.file.format(DAYS[0]))
        self.row.write(path, 0)
        return path

    def rewrite(self, path: Path) -> None:
        """Replace a source by one with the pixels of the second."""
        for each in path.parent.iterdir():
            if each.is_dir():
                shutil.rmtree(each)
            elif each.suffix != ".refs":
                each.unlink()
        self.row.write(path, 1)
