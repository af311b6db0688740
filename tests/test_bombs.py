"""Sources that claim gigabytes: each is indexed and read, or refused, within 500 MB more than the process had."""

import subprocess
import sys
import textwrap

import pytest

from tests.bombs import BOMBS

MOST = 500
"""Megabytes that a source may take beside what the process had before."""

CHILD = """
    import os, resource, sys, warnings
    warnings.simplefilter("ignore")
    import jnrrdz, jnrrdz.store.requests, jnrrdz.store.store  # noqa: E401
    try:
        import astropy.io.fits, h5py, pyarrow.compute, pyarrow.parquet, virtualizarr.parsers  # noqa: E401
    except ImportError:
        pass
    def kilobytes(field):  # getrusage would tell the peak of the process that started this one
        return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1])
    before = kilobytes("VmRSS")
    address_space = (kilobytes("VmSize") << 10) + (3 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    source = sys.argv[1]
    manifest = source.rstrip("/") + ".out.json"
    try:
        if source.endswith((".json", ".parq")):
            jnrrdz.convert(source, manifest)
        else:
            jnrrdz.index(source, manifest)
        for _, array in jnrrdz.open_group(manifest).members(max_depth=None):
            if getattr(array, "ndim", 0):
                array[(0,) * array.ndim]
                break
        print("read")
    except jnrrdz.JnrrdzError as error:
        print("refused", error)
    print((kilobytes("VmHWM") - before) >> 10, flush=True)
    os._exit(0)  # the memory is counted
"""


@pytest.mark.parametrize("name", BOMBS)
def test_memory_grows_with_the_source(tmp_path, name):
    source = BOMBS[name](tmp_path)
    child = [sys.executable, "-c", textwrap.dedent(CHILD), str(source)]
    run = subprocess.run(child, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    end, megabytes = run.stdout.splitlines()[-2:]
    assert end.startswith(("read", "refused"))
    assert "Unable to allocate" not in end
    assert int(megabytes) < MOST, end
