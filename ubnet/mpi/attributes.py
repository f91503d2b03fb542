"""Attributes: what a program hangs on a communicator, a datatype or a window, by keys it makes."""

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import Any

from .exception import ERR_KEYVAL, ERR_OTHER
from .exception import Exception as MPIException
from .handle import HandleMethods
from .kept import kept

KEYVAL_INVALID = -1
FIRST_KEYVAL = 100
"""The numbers below are those of MPI's own attributes."""

Copy = Callable[[Any, int, Any], Any] | bool | None
Delete = Callable[[Any, int, Any], None] | bool | None


@dataclass(frozen=True, slots=True)
class Keyval:
    """A key of attributes.

    Attributes
    ----------
    kind : type
        The class of handles that it is for.
    copy : callable, bool or None
        ``f(handle, keyval, value)`` returns what a duplicate gets, NotImplemented for nothing; True
        hands on the value.
    delete : callable, bool or None
        ``f(handle, keyval, value)`` is called when the attribute goes.
    plain : bool
        Whether values are numbers, as wide as an address.
    """

    kind: type[HandleMethods]
    copy: Copy
    delete: Delete
    plain: bool


class Attributes(HandleMethods):
    """What a handle has of attributes."""

    __slots__ = ()

    @classmethod
    def Create_keyval(
        cls, copy_fn: Copy = None, delete_fn: Delete = None, nopython: bool = False
    ) -> int:
        """Return a new key.

        Parameters
        ----------
        copy_fn : callable or bool, optional
            ``f(handle, keyval, value)``: what a duplicate gets; True: the value, False: nothing.
        delete_fn : callable, optional
            ``f(handle, keyval, value)``: called when the attribute goes.
        nopython : bool
            Whether values are plain numbers.
        """
        keys = _keyvals()
        number = max(keys, default=FIRST_KEYVAL - 1) + 1
        keys[number] = Keyval(cls._kind, copy_fn, delete_fn, bool(nopython))
        return number

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Free a key and return KEYVAL_INVALID; what has such an attribute keeps it."""
        cls._keyval(keyval)
        kept("freed keyvals")[keyval] = _keyvals().pop(keyval)
        return KEYVAL_INVALID

    def Get_attr(self, keyval: int) -> Any:
        """Return an attribute, None if there is none."""
        self._owner()
        if keyval < 0:
            raise MPIException(ERR_KEYVAL, f"there is no key {keyval}")
        if keyval < FIRST_KEYVAL:
            return self._predefined_attribute(keyval)
        return self._attributes().get(keyval)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Set an attribute; one that is there goes first."""
        key = self._keyval(keyval)
        if key.plain:
            attrval = index(attrval)
        held = self._attributes()
        if keyval in held:
            self._drop(keyval)
        held[keyval] = attrval

    def Delete_attr(self, keyval: int) -> None:
        """Take an attribute away."""
        self._keyval(keyval)
        if keyval not in self._attributes():
            raise MPIException(ERR_KEYVAL, f"there is no attribute of key {keyval}")
        self._drop(keyval)

    def _predefined_attribute(self, keyval: int) -> Any:
        """Return one of MPI's own attributes, None if there is none of that number."""
        return None

    def _owner(self) -> Any:
        """Return what the handle stands for, as the running rank sees it."""
        return self._ref

    def _attributes(self) -> dict[int, Any]:
        owner = self._owner()
        held: dict[int, Any]
        _, held = kept("attributes").setdefault(id(owner), (owner, {}))
        return held

    def _copy_attributes(self, made: "Attributes") -> None:
        """Hand on to a duplicate what its keys say."""
        for keyval, value in list(self._attributes().items()):
            key = _known(keyval)
            if not key.copy:
                continue
            if callable(key.copy):
                value = _call(key.copy, self, keyval, value)
                if value is NotImplemented:
                    continue
            made._attributes()[keyval] = value

    def _drop_attributes(self) -> None:
        """Take all attributes away, the last one first."""
        owner = self._owner()
        everything = kept("attributes")
        if id(owner) in everything:
            for keyval in reversed(list(self._attributes())):
                self._drop(keyval)
            del everything[id(owner)]

    def _drop(self, keyval: int) -> None:
        value = self._attributes().pop(keyval)
        delete = _known(keyval).delete
        if callable(delete):
            _call(delete, self, keyval, value)

    @classmethod
    def _keyval(cls, keyval: int) -> Keyval:
        key = _keyvals().get(keyval)
        if key is None or key.kind is not cls._kind:
            raise MPIException(ERR_KEYVAL, f"{keyval} is no key of {cls._kind.__name__}")
        return key


def _keyvals() -> dict[int, Keyval]:
    keys: dict[int, Keyval] = kept("keyvals")
    return keys


def _known(keyval: int) -> Keyval:
    known: Keyval = {**kept("freed keyvals"), **_keyvals()}[keyval]
    return known


def _call(function: Callable[..., Any], handle: HandleMethods, keyval: int, value: Any) -> Any:
    """Call what a program gave with a key; its exception becomes an error of MPI."""
    stands = type(handle)._of(handle._ref, handle._name)
    try:
        return function(stands, keyval, value)
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        raise MPIException(ERR_OTHER, f"an attribute's function failed: {error!r}") from None
    finally:
        stands._stand_for(None, "")
