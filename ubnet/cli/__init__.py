"""The command line: ``ubnet bench``, ``ubnet run`` and ``ubnet topo``."""
