"""``python -m ubnet.run PROGRAM`` is ``ubnet run PROGRAM``; `ubnet.run` stays the function."""

import sys
from types import ModuleType

from ubnet.launch import run


class _Callable(ModuleType):
    """A module that is called as the function of its name.

    Importing this module puts it in the place of the function in the package, so it must serve
    as one.
    """

    __call__ = staticmethod(run)


if __name__ == "__main__":
    from ubnet.cli.main import main

    main(["run", *sys.argv[1:]])
else:
    sys.modules[__name__].__class__ = _Callable
