import json

import pytest

from jnrrdz.core.pyramid import VIRTUAL_LEVELS, VirtualLevel, virtual_levels_attribute, virtual_levels_of
from jnrrdz.errors import JnrrdzError

LEVEL = VirtualLevel("1", "0", "data", (2, 1), (50, 7), (16, 7), "max")
GOOD = {
    "name": "1",
    "source": "0",
    "variable": "data",
    "factors": [2, 1],
    "shape": [50, 7],
    "chunks": [16, 7],
    "method": "max",
}


def test_the_attribute_says_what_the_level_is_and_comes_back_from_json():
    attributes = virtual_levels_attribute([LEVEL])
    assert attributes == {VIRTUAL_LEVELS: [GOOD]}
    assert virtual_levels_of(json.loads(json.dumps(attributes))) == (LEVEL,)


def test_no_levels_are_no_attribute_and_the_method_is_average_where_none_is_said():
    assert virtual_levels_attribute([]) == {}
    assert virtual_levels_of({"other": 1}) == ()
    assert VirtualLevel.from_json({k: v for k, v in GOOD.items() if k != "method"}).method == "average"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "median"}, "average, gaussian, lanczos, max, min, mode"),
        ({"name": "a/b"}, "name"),
        ({"name": ".."}, "name"),
        ({"name": 3}, "name"),
        ({"source": "1"}, "itself"),
        ({"factors": [2]}, "differ in length"),
        ({"factors": [0, 1]}, "factors"),
        ({"factors": [1 << 40, 1]}, "factors"),
        ({"factors": [True, 1]}, "whole numbers"),
        ({"factors": 2}, "whole numbers"),
        ({"shape": [-1, 7]}, "shape"),
        ({"chunks": [0, 7]}, "chunks"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_cannot_be_a_level_is_refused_by_its_field(change, said):
    with pytest.raises(JnrrdzError, match=said):
        virtual_levels_of({VIRTUAL_LEVELS: [GOOD | change]})


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("1", "no list"),
        ([1], "no object"),
        ([{"name": "1"}], "without chunks, factors"),
        ([GOOD, GOOD], "twice"),
        ([GOOD, GOOD | {"name": "2", "source": "1"}], "virtual too"),
        ([GOOD] * 65, "no more than 64"),
    ],
)
def test_a_list_that_contradicts_itself_is_refused(listed, said):
    with pytest.raises(JnrrdzError, match=said):
        virtual_levels_of({VIRTUAL_LEVELS: listed})
