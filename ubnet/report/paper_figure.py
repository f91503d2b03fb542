"""A published figure beside ubnet's own.

A figure is `given` where it is put into the model as it is published, `fitted` where constants of
the model were chosen to meet it, `follows` where arithmetic makes it from such figures, so that it
proves little by itself, and `predicted` where it had no part in making the model. The letters of
the sources are those of `ubnet.topologies.constants`; D stands for what follows from other figures
by arithmetic.
"""

from dataclasses import dataclass

GIVEN, FITTED, FOLLOWS, PREDICTED = KINDS = ("given", "fitted", "follows", "predicted")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a source, and what ubnet says.

    Attributes
    ----------
    section : str
        What belongs together: a name of `ubnet.report.paper.SECTIONS`.
    what : str
        What is measured.
    unit : str
        The unit of both values.
    published : float or None
        What the source prints; None: nothing is published, this is a prediction alone.
    ours : float
        What the model says.
    kind : {"given", "fitted", "follows", "predicted"}
        What the model knew of it.
    source : str
        Letter and table.
    """

    section: str
    what: str
    unit: str
    published: float | None
    ours: float
    kind: str
    source: str = ""

    @property
    def error(self) -> float | None:
        """Ours over the published one, less 1; None where there is none.

        >>> Figure("transfers", "read", "GB/s", 160, 200, "fitted").error
        0.25
        """
        return None if not self.published else self.ours / self.published - 1

    def record(self) -> dict[str, str | float | None]:
        """Return what ``--json`` prints."""
        return {
            "section": self.section,
            "what": self.what,
            "unit": self.unit,
            "published": self.published,
            "ours": self.ours,
            "error": self.error,
            "kind": self.kind,
            "source": self.source,
        }
