"""Where a bench's rows go: a table or JSON lines on stdout, a picture into a file."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from ubnet.cli.notes import note
from ubnet.errors import NoRoute
from ubnet.fabric import Fabric
from ubnet.report.row import Row
from ubnet.report.table import capped, print_table


class Results:
    """Collects the rows of a bench; `close` prints what was not printed at once.

    Parameters
    ----------
    header : sequence of str
        The ``#`` lines above the table.
    as_json : bool
        Print each row as a line of JSON as soon as it is there.
    plot : Path, optional
        The file of the picture.
    where : str
        The fabric, for the title of the picture.
    fabric : Fabric, optional
        It says which transports have a cap that efficiencies count.
    footer : callable
        What stands below the table.
    """

    def __init__(
        self,
        header: Sequence[str],
        *,
        as_json: bool = False,
        plot: Path | None = None,
        where: str = "",
        fabric: Fabric | None = None,
        footer: Callable[[Sequence[Row]], list[str]] = lambda rows: [],
    ) -> None:
        self.header, self.fabric = header, fabric
        self.as_json = as_json
        self.plot = plot
        self.where = where
        self.footer = footer
        self.rows: list[Row] = []
        self.left_out: NoRoute | None = None
        if plot is not None:
            from ubnet.report.plot import check_picture

            # Before the rows are measured, not after.
            check_picture(plot)

    @property
    def caps(self) -> list[str]:
        """The ``#`` lines about transports with a cap, which stand below the others."""
        return capped(self.rows, self.fabric) if self.fabric else []

    def add(self, row: Row) -> None:
        """Take one row."""
        self.rows.append(row)
        if self.as_json:
            print(json.dumps(row.record()), flush=True)

    def attempt(self, make: Callable[[], Row], transports: int) -> None:
        """Take the row that `make` returns; of several transports one may not join the ranks.

        Raises
        ------
        NoRoute
            If there is only one transport.
        """
        try:
            self.add(make())
        except NoRoute as error:
            if transports == 1:
                raise
            self.left_out = error
            note(f"a row is left out: {error}")

    def close(self) -> None:
        """Print the table, draw the picture, and end with status 1 where a result was wrong."""
        if self.left_out and not self.rows:
            raise self.left_out
        if self.rows and not self.as_json:
            header = [*self.header, *self.caps]
            print_table(self.rows, header, sys.stdout, self.footer(self.rows))
        if self.plot is not None:
            from ubnet.report.plot import plot_rows

            plot_rows(self.rows, self.plot, self.where)
            note(f"picture written to {self.plot}")
        self.end()

    def end(self) -> None:
        """End with status 1 where a result was wrong."""
        wrong = sum(1 for row in self.rows if row.wrong or row.wrong_in_place)
        if wrong:
            note(f"{wrong} of {len(self.rows)} rows have wrong results")
            click.get_current_context().exit(1)
