"""Index a folder or prefix on a dask cluster: `python dask_cluster.py SOURCES OUT [SCHEDULER]`.

Every worker needs `pip install 'jnrrdz[dask]'`, for s3:// 'jnrrdz[dask,s3]'.  Without a scheduler's address a cluster
of two processes is started here; with dask-jobqueue, dask-kubernetes or Coiled it is theirs.  Workers write their own
manifests, so OUT has to be where all of them can write.
"""

import sys

from distributed import LocalCluster

import jnrrdz


def main() -> None:
    """Index, and say what became of it."""
    sources, out, *scheduler = sys.argv[1:]
    if scheduler:
        done = jnrrdz.batch(sources, f"{out}/{{path}}.json", scheduler=scheduler[0], resume=True)
    else:
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            done = jnrrdz.batch(sources, f"{out}/{{path}}.json", scheduler=cluster.scheduler_address, resume=True)
    print(f"{done.ok} indexed, {done.skipped} left, {done.failed} failed")
    for failure in done.failures:
        print(f"{failure['source']}: {failure['message']}", file=sys.stderr)


if __name__ == "__main__":
    main()
