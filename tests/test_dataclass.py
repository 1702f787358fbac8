"""`anabranch.dataclass` defines what `dataclasses.dataclass` defines."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import inspect
import pickle  # noqa: TID251 -- process pools do so with what they are given
from collections.abc import Callable
from typing import Any

import pytest

from anabranch import dataclass as ours

DECORATORS = {"ours": ours.dataclass, "the standard library's": dataclasses.dataclass}
ARGUMENTS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"eq": False, "slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "eq": False},
]


def defined(decorator: Callable[..., Any], **arguments: bool) -> Any:
    """A dataclass with all kinds of fields, made by this decorator."""

    class Parcel:
        """A parcel."""

        weight: int
        name: str = "a"
        items: list[int] = dataclasses.field(default_factory=list)
        _key: str = dataclasses.field(default="k", repr=False, compare=False)
        doubled: int = dataclasses.field(init=False)
        found: list[int] = dataclasses.field(init=False, default_factory=list)
        kind: int = dataclasses.field(default=1, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "doubled", 2 * self.weight)

    Parcel.__qualname__ = "Parcel"
    return decorator(**arguments)(Parcel)


def seen_of(decorator: Callable[..., Any], arguments: dict[str, bool]) -> list[Any]:
    """What is seen of a class and its instances; texts and numbers, so that two classes can be compared."""
    parcel = defined(decorator, **arguments)
    one, same, other = parcel(weight=1), parcel(weight=1, _key="other"), parcel(weight=1, items=[2], kind=3)
    return [
        str(inspect.signature(parcel)),
        str(inspect.signature(parcel, eval_str=True)),
        repr(parcel.__dataclass_params__),
        parcel.__match_args__,
        [field.name for field in dataclasses.fields(parcel)],
        hasattr(one, "__dict__"),
        repr(one),
        repr(other),
        one == same,
        one == other,
        one == dataclasses.astuple(one),
        parcel.__hash__ is None,
        dataclasses.asdict(other),
        repr(dataclasses.replace(one, name="b")),
        repr(copy.copy(other)),
        copy.deepcopy(other) == other,
        *(outcome_of(action, parcel) for action in ACTIONS),
    ]


def outcome_of(action: Callable[[Any], Any], parcel: Any) -> str:
    """What an action gives or raises."""
    try:
        return repr(action(parcel))
    except (AttributeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


ACTIONS: list[Callable[[Any], Any]] = [
    lambda parcel: parcel(),
    lambda parcel: parcel(1, 2, 3, 4, 5, 6),
    lambda parcel: parcel(weight=1, unknown=2),
    lambda parcel: parcel(weight=1, doubled=2),
    lambda parcel: setattr(parcel(weight=1), "weight", 2),
    lambda parcel: delattr(parcel(weight=1), "weight"),
    lambda parcel: parcel(weight=1).items is parcel(weight=1).items,
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_a_class_is_as_the_standard_library_makes_it(arguments: dict[str, bool]) -> None:
    assert seen_of(ours.dataclass, arguments) == seen_of(dataclasses.dataclass, arguments)


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=list(DECORATORS))
def test_frozen_instances_are_keys(decorator: Callable[..., Any]) -> None:
    @decorator(frozen=True, slots=True)
    class Key:
        node: str
        scope: int = 0
        note: str = dataclasses.field(default="", compare=False)

    @decorator(frozen=True)
    class Single:
        node: Any

    @decorator(frozen=True)
    class Empty:
        pass

    assert {Key("a", note="x"): 1}[Key("a", note="y")] == 1 and Key("a") != Key("b")
    assert hash(Single((1,))) != hash(Single(1)) and Single((1,)) != Single(1)
    assert Empty() == Empty() and hash(Empty()) == hash(Empty())
    assert (Key("a") == Single("a"), Key("a") == "a") == (False, False)


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=list(DECORATORS))
def test_methods_that_a_class_has_itself_stay(decorator: Callable[..., Any]) -> None:
    @decorator(frozen=True)
    class Own:
        value: int

        def __init__(self) -> None:
            object.__setattr__(self, "value", 7)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    @decorator(slots=True)
    class Hashed:
        value: int

        def __hash__(self) -> int:
            return 3

    assert (Own().value, repr(Own()), Own() == 1, hash(Own())) == (7, "own", True, hash((7,)))
    assert hash(Hashed(1)) == 3


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=list(DECORATORS))
def test_dataclasses_inherit_and_subclasses_of_frozen_ones_may_have_more(decorator: Callable[..., Any]) -> None:
    @decorator(slots=True, eq=False)
    class Base:
        a: int

    @decorator(slots=True, eq=False)
    class Derived(Base):
        b: int = 2

    @decorator(frozen=True)
    class Frozen:
        a: int

    class More(Frozen):
        pass

    more = More(1)
    more.extra = 5  # type: ignore[attr-defined]

    assert (Derived(1).a, Derived(1, 3).b) == (1, 3)
    assert more.extra == 5  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        more.a = 2


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=list(DECORATORS))
def test_frozen_ones_inherit_from_frozen_ones_only(decorator: Callable[..., Any]) -> None:
    @decorator(frozen=True)
    class Frozen:
        a: int

    @decorator(frozen=True)
    class Derived(Frozen):
        b: int = 2

    @decorator
    class Open:
        a: int

    assert Derived(1) == Derived(1, 2) and repr(Derived(1)).endswith("Derived(a=1, b=2)")
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        decorator(type("Thawed", (Frozen,), {}))
    with pytest.raises(TypeError, match="cannot inherit frozen dataclass from a non-frozen one"):
        decorator(frozen=True)(type("Late", (Open,), {}))


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=list(DECORATORS))
def test_what_is_rare_is_made_as_the_standard_library_does(decorator: Callable[..., Any]) -> None:
    @decorator(frozen=True)
    class Rare:
        given: dataclasses.InitVar[int]
        unhashable: list[int] = dataclasses.field(default_factory=list, hash=False)

        def __post_init__(self, given: int) -> None:
            self.unhashable.append(given)

    @decorator(frozen=True)
    class Named:
        set: int
        factory: list[int] = dataclasses.field(default_factory=list)
        _set: int = 3

    assert Rare(1).unhashable == [1] and hash(Rare(1)) == hash(Rare(2))
    assert (Named(1).set, Named(1).factory, Named(1)._set) == (1, [], 3)


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=list(DECORATORS))
def test_a_field_without_a_default_comes_before_those_with_one(decorator: Callable[..., Any]) -> None:
    class Wrong:
        a: int = 1
        b: int  # type: ignore[misc]

    with pytest.raises(TypeError, match="non-default argument 'b' follows default argument"):
        decorator(Wrong)


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=list(DECORATORS))
def test_pytest_shows_which_fields_differ(decorator: Callable[..., Any]) -> None:
    @decorator
    class Pair:
        left: int
        right: int

    with pytest.raises(AssertionError) as failed:
        assert Pair(1, 2) == Pair(1, 3)
    assert "Differing attributes" in str(failed.value)


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=list(DECORATORS))
def test_one_that_holds_itself_is_shown(decorator: Callable[..., Any]) -> None:
    @decorator(slots=True)
    class Node:
        below: Any = None

    node = Node()
    node.below = node

    assert repr(node).endswith("Node(below=...)")


@ours.dataclass(frozen=True, slots=True)
class Sent:
    to: str
    size: int = 0


def test_frozen_instances_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", 3))) == Sent("a", 3)


def test_one_method_a_class_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[str] = []

    def execute(source: str, *names: Any, run: Callable[..., None] = exec) -> None:
        sources.append(source)
        run(source, *names)

    monkeypatch.setattr(builtins, "exec", execute)

    defined(ours.dataclass, frozen=True, slots=True)

    assert len(sources) == 1
