"""The application: its commands, and the one place where errors end."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from jazzmine_dspy._version import __version__
from jazzmine_dspy.cli import (
    datasets,
    decide,
    doctor,
    evaluate,
    flows,
    init,
    memory,
    models,
    optimize,
    test,
)
from jazzmine_dspy.cli._output import (
    AWAITING,
    BAD_INPUT,
    CHECK_FAILED,
    INTERRUPTED,
    Output,
    failure_of,
    session,
)


class _Group(TyperGroup):
    """Reports every error as text or as JSON, with the exit code that belongs to it."""

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None,
        complete_var: str | None = None, standalone_mode: bool = True, windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:  # fmt: skip
        del standalone_mode  # errors end here in any case
        given = list(sys.argv[1:] if args is None else args)
        prog_name = prog_name or "jazzmine-dspy"
        _open_streams()
        try:
            with session("--json" in given) as out:
                try:
                    result = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
                    code = result if isinstance(result, int) else 0
                except (KeyboardInterrupt, typer.Abort):
                    code = INTERRUPTED
                except BrokenPipeError:
                    raise
                except Exception as error:
                    if type(error).__name__ == "NoArgsIsHelpError":  # the help was shown
                        code = BAD_INPUT
                    else:
                        failure = failure_of(error)
                        failure.report(out)
                        code = failure.code
                except BaseException as stopped:
                    # Its class brings the models along, and most commands end without it.
                    if type(stopped).__name__ not in ("Awaiting", "Stale"):
                        raise
                    code = _await(out, stopped)
        except BrokenPipeError:
            # Whoever read our output has seen enough.
            _close_stdout()
            code = 0
        except OSError as error:
            _close_stdout()
            print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
            code = BAD_INPUT
        sys.exit(code)


def _await(out: Output, awaiting: Any) -> int:
    from jazzmine_dspy.models.awaiting import Stale

    if isinstance(awaiting, Stale):
        out.document({"stale": len(awaiting.keys), "recording": awaiting.folder})
        out.note(f"{awaiting}. It is not used: record the answers again, or restore what has changed.")
        return CHECK_FAILED
    if awaiting.problem is not None:
        failure = failure_of(awaiting.problem)
        failure.report(out)
        return failure.code
    out.document({"awaiting": len(awaiting.keys), "folder": awaiting.folder})
    out.note(f"{awaiting}. Put the answers into answers.jsonl there, and call the command again.")
    return AWAITING


def _open_streams() -> None:
    """A process may be started without stdout or stderr: what is written to them then goes nowhere.

    Where the locale is POSIX, stdin may be taken for ASCII; it is read as UTF-8, which contains it.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for as long as we run
    stdin = sys.stdin
    if isinstance(stdin, io.TextIOWrapper) and codecs.lookup(stdin.encoding).name == "ascii":
        stdin.reconfigure(encoding="utf-8", errors="surrogateescape")


def _close_stdout() -> None:
    """Let what is left go nowhere: Python must not complain again at its end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


app = typer.Typer(
    name="jazzmine-dspy",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Understand the turns of a conversation with programs compiled on labelled conversations.",
    epilog="Exit codes: 0 success, 1 a check failed, 2 wrong input or usage, 3 answers are missing. "
    "Every command takes --json.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jazzmine-dspy {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _wants_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    # No telemetry; a value that the user has set stays.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


_COMMANDS = (
    init.init, optimize.optimize, evaluate.evaluate, test.test, evaluate.compare, optimize.report, decide.decide,
    decide.chat, doctor.doctor,
)  # fmt: skip
for _command in _COMMANDS:
    app.command()(_command)
for _name, _group in (("datasets", datasets), ("flows", flows), ("models", models), ("memory", memory)):
    app.add_typer(_group.app, name=_name)


def main() -> None:
    """Run the command line; ends the process."""
    app()
