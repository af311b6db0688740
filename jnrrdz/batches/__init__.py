"""Many sources to manifests: found, shared out to workers, tried again, resumed, reported.

`run.batch` is the library"s function; `work.run_job` is what each worker does with one source.  Sources are found by
`selection`, `listing` and `stac`; work is shared out by `executors`.  See docs/howto/batch.md.
"""

from typing import TYPE_CHECKING

from jnrrdz.lazy import modules

if TYPE_CHECKING:
    from jnrrdz.batches import run, selection, stac

__all__ = ["run", "selection", "stac"]

__getattr__ = modules(__name__, __all__)
