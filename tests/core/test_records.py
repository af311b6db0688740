"""A record is what a frozen dataclass is: the standard library's says what that is."""

import copy
import pickle
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
