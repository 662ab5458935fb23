"""The `pubsub-cluster` command: a group whose commands are imported when they are used.

Idea: the table below is all that the group knows. Listing the commands imports their modules, which hold
options and help only; Numba, NumPy and matplotlib are imported inside the functions that need them.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import click

from pubsub_cluster.cli.common import EXIT_INTERRUPTED, note, refused_by_the_system, reporting, say_no_more

COMMANDS: dict[str, str] = {
    "start": "pubsub_cluster.cli.start:start",
    "stop": "pubsub_cluster.cli.start:stop",
    "status": "pubsub_cluster.cli.status:status",
    "stats": "pubsub_cluster.cli.stats:stats",
    "subscribe": "pubsub_cluster.cli.subscriptions:subscribe",
    "update": "pubsub_cluster.cli.subscriptions:update",
    "unsubscribe": "pubsub_cluster.cli.subscriptions:unsubscribe",
    "load": "pubsub_cluster.cli.load:load",
    "list": "pubsub_cluster.cli.listing:list_",
    "publish": "pubsub_cluster.cli.publish:publish",
    "listen": "pubsub_cluster.cli.listen:listen",
    "forget": "pubsub_cluster.cli.listen:forget",
    "match": "pubsub_cluster.cli.match:match",
    "explain": "pubsub_cluster.cli.explain:explain",
    "schema": "pubsub_cluster.cli.schema:schema",
    "resize": "pubsub_cluster.cli.resize:resize",
    "backup": "pubsub_cluster.cli.durable:backup",
    "restore": "pubsub_cluster.cli.durable:restore",
    "verify": "pubsub_cluster.cli.durable:verify",
    "tune": "pubsub_cluster.cli.tune:tune",
    "pipeline": "pubsub_cluster.cli.pipeline.command:pipeline",
    "bench": "pubsub_cluster.cli.bench:bench",
    "reproduce": "pubsub_cluster.cli.reproduce:reproduce",
    "doctor": "pubsub_cluster.cli.doctor:doctor",
    "demo": "pubsub_cluster.cli.demo.command:demo",
}
EPILOG = "Every command takes --json and has an example in its help."


class LazyGroup(click.Group):
    """A group that finds its commands by name in `COMMANDS`, in that order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table: that of a first session."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module_name, _, attribute = place.partition(":")
        found: click.Command = getattr(importlib.import_module(module_name), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with a suggestion when there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the command line; help and version are printed here, before there is a command."""
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError:  # their reader has gone (`| head`)
            say_no_more()
            raise click.exceptions.Exit(0) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; whatever it raises is told in one way."""
        with reporting(ctx):
            return super().invoke(ctx)


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pubsub-cluster", prog_name="pubsub-cluster")
def cli() -> None:
    """Content-based publish/subscribe matching on one host.

    Subscriptions are boolean expressions; every published event is answered with the subscriptions that it
    matches, and their owners are told.

    \b
    A first session:
      pubsub-cluster doctor
      pubsub-cluster start --detach
      pubsub-cluster subscribe 'price > 100 AND symbol = "ABC"' --owner me
      echo '{"symbol": "ABC", "price": 120}' | pubsub-cluster publish -
      pubsub-cluster stop
    """


def run() -> int:
    """Run the command line of this process and return the exit code."""
    try:
        code = cli.main(prog_name="pubsub-cluster", standalone_mode=False)
    except click.Abort:
        note("Stopped.")
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OSError as error:  # of what is printed before there is a command: help, the version
        told = refused_by_the_system(error)
        told.show()
        return told.exit_code
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of console scripts of before; see `pubsub_cluster.cli.__main__`."""
    from pubsub_cluster.cli.__main__ import main as entry

    entry()


if __name__ == "__main__":
    main()
