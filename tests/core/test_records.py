"""A record is what a frozen dataclass is: the standard library's says what that is."""

import copy
import pickle
import sys
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from functools import cached_property

import pytest

from jnrrdz.records import record


class Methods:
    @cached_property
    def twice(self):
        return 2 * self.number


def described(decorator):
    class Described(Methods):
        """A record."""

        number: int
        names: tuple[str, ...] = ()
        note: str = field(default="", compare=False)
        hidden: list[int] = field(default_factory=list, repr=False, compare=False)

    return decorator(Described)


Ours, Standard = described(record), described(dataclass(frozen=True))


@record
class Plain:
    """A record that pickles by its name."""

    number: int
    name: str = "a"


@record
class More(Plain):
    """A record of more."""

    size: int = 3


@record
class Own:  # noqa: PLW1641  the decorator adds it
    """A record that says itself what is equal."""

    number: int

    def __eq__(self, other):
        return isinstance(other, Own)


@pytest.mark.parametrize("values", [(1,), (1, ("x",)), (1, ("x",), "note", [4])])
def test_repr_members_and_equality_are_those_of_a_frozen_dataclass(values):
    ours, standard = Ours(*values), Standard(*values)
    assert repr(ours) == repr(standard)
    assert asdict(ours) == asdict(standard)
    assert [each.name for each in fields(ours)] == [each.name for each in fields(standard)]
    assert (ours == Ours(*values), ours == Ours(2)) == (standard == Standard(*values), standard == Standard(2))
    assert hash(ours) == hash(standard)
    assert ours != standard
    assert replace(ours, number=5) == Ours(5, *values[1:])
    assert ours.twice == 2


def test_fields_are_not_changed_once_they_have_values():
    one = Plain(1)
    for change in (
        lambda: setattr(one, "number", 2),
        lambda: setattr(one, "name", "b"),
        lambda: setattr(one, "other", 2),
        lambda: delattr(one, "number"),
    ):
        with pytest.raises(FrozenInstanceError):
            change()
    assert one == Plain(1, "a")


def test_copies_and_pickles_are_equal_and_frozen_too():
    for other in (copy.copy(More(1)), copy.deepcopy(More(1)), pickle.loads(pickle.dumps(More(1)))):
        assert other == More(1, "a", 3)
        with pytest.raises(FrozenInstanceError):
            other.size = 4


def test_classes_differ_and_what_a_class_says_itself_stays():
    assert Plain(1) != More(1)
    assert Own(1) == Own(2)
    assert record(eq=False)(type("Apart", (), {"__doc__": "", "__annotations__": {"a": int}}))(1) != Plain(1)


@record
class Counted:
    """A record with fields that its maker does not give."""

    items: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list, init=False)
    count: int = field(init=False)

    def __post_init__(self):
        self.count = len(self.items)


def test_fields_that_are_not_given_are_new_for_each_record_and_set_once():
    one, other = Counted(), Counted(items=[1, 2])
    one.notes.append("a")
    assert (one.count, other.count, Counted().notes) == (0, 2, [])
    with pytest.raises(FrozenInstanceError):
        one.count = 3
    with pytest.raises(TypeError):
        Counted(notes=["a"])


def test_a_wrong_number_of_arguments_names_the_class():
    with pytest.raises(TypeError, match=r"Plain.__init__\(\) missing 1 required positional argument: 'number'"):
        Plain()


def test_making_a_record_calls_nothing_but_its_maker():
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        Plain(1, "b")
    finally:
        sys.setprofile(None)
    assert calls == ["__init__"]
