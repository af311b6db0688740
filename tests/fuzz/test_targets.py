"""What the fuzzer feeds reads its seeds, and a hundred damaged copies of them end in pixels or in our errors."""

import warnings

import pytest

import jnrrdz
from tests.fuzz import targets
from tests.fuzz.damaged import damaged

COPIES = 60
"""Damaged seeds of each target; `make fuzz` goes on where this ends."""


@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_target_reads_its_seeds_and_survives_their_damage(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is left out of a damaged file is named in one
        target, seeds = targets.TARGETS[name], targets.seeds(name)
        assert any(target(seed) for seed in seeds)
        for number in range(COPIES):
            try:
                target(damaged(seeds[number % len(seeds)], number))
            except jnrrdz.JnrrdzError as error:
                assert str(error)  # noqa: PT017  an error is as good as pixels, if it is one of ours


@pytest.mark.parametrize("path", sorted(targets.CORPUS.glob("*/finding-*")), ids=lambda path: path.name)
def test_what_the_fuzzer_found_stays_fixed(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            targets.TARGETS[path.parent.name](path.read_bytes())
        except jnrrdz.JnrrdzError as error:
            assert str(error)  # noqa: PT017  see above


def test_each_codec_of_the_corpus_is_a_target():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert sorted(targets.samples()) == sorted(targets.CODECS)
