"""A click group that imports a subcommand only when it is called."""

from collections.abc import Callable, Mapping

import click

from ubnet.errors import OptionError, did_you_mean


class LazyGroup(click.Group):
    """A group whose subcommands are known by name and help line, and loaded when called.

    Parameters
    ----------
    name : str
        The group's name.
    helps : mapping of str to str
        The subcommands, in the order of ``--help``, each with its one line of help.
    load : callable
        Returns the command of a name; called at most once a run.
    canonical : callable, optional
        Turns what the user wrote into one of the names.
    """

    def __init__(
        self,
        name: str,
        helps: Mapping[str, str],
        load: Callable[[str], click.Command],
        *,
        canonical: Callable[[str], str] = str,
        callback: Callable[..., object] | None = None,
        params: list[click.Parameter] | None = None,
        help: str | None = None,
    ) -> None:
        super().__init__(
            name, callback=callback, params=params, help=help, invoke_without_command=True
        )
        self.helps = helps
        self.load = load
        self.canonical = canonical

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order in which they are shown."""
        return list(self.helps)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import and return a subcommand.

        Raises
        ------
        OptionError
            If there is none of that name; the message names the nearest.
        """
        name = self.canonical(cmd_name)
        if name not in self.helps:
            hint = did_you_mean(cmd_name, self.helps)
            raise OptionError(f"{ctx.command_path} has no {cmd_name!r}; {hint}")
        return self.load(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.helps.items()))
