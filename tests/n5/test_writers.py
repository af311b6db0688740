"""A sample of the table of `cases`, each by its own writer: every dataset reads exactly, by any chain that takes it."""

import pytest

from tests.n5.cases import table
from tests.n5.matrix import CHAINS, verdict, write, zarr2_python

EVERY = 61
SAMPLE = [case for case in table() if case.number % EVERY == 0]
WRITERS = ("tensorstore", "z5py", "zarr2", "bytes")


def test_the_sample_has_all_that_the_table_has():
    for aspect in ("writer", "dtype", "kind", "geometry"):
        assert {getattr(case, aspect) for case in SAMPLE} == {getattr(case, aspect) for case in table()}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_dataset_reads_exactly(writer, tmp_path):
    if writer == "zarr2" and zarr2_python() is None:
        pytest.skip("zarr 2 needs an environment of its own, and no registry is reachable to make it")
    cases = [case for case in SAMPLE if case.writer == writer]
    expected = write(cases, tmp_path)
    found = {
        (case.name, chain): verdict(case, tmp_path, expected[case.number], chain) for case in cases for chain in CHAINS
    }
    # `offset` and `pad` may be refused, where a block is not full
    refusal = "a block of another shape or kind"
    wrong = {
        key: said
        for key, said in found.items()
        if said != "exact" and not (key[1] in {"offset", "pad"} and refusal in said)
    }
    assert len(cases) > 10
    assert wrong == {}
