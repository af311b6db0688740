"""Many sources to manifests: found, shared out to workers, retried, resumed, reported.

`run.batch` is the library's function; `work.done` is what each worker does with one source.  Layers: finding
(`selection`, `listing`, `lists`, `stac`, `geoparquet`), naming (`template`), working (`work`, `recorded`, `retry`,
`timed`), sharing out (`threads`, `processes`, `cluster`).  See docs/howto/batch.md.
"""
