"""The command line program ``gpuspawner``: runs sub-commands and turns exceptions into exit codes."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from gpuspawner import __version__
from gpuspawner.cli import demo, schema, version
from gpuspawner.cli.check import command as check_command
from gpuspawner.cli.common.output import BAD, FAILED, INTERRUPTED, WRONG_CALL, SafeOutput, sanitize
from gpuspawner.cli.diff import command as diff_command
from gpuspawner.cli.doctor import command as doctor_command
from gpuspawner.cli.explain import command as explain_command
from gpuspawner.cli.inventory import command as inventory_command
from gpuspawner.core.errors import GPUSpawnerError, SettingsError
from gpuspawner.core.text.wording import find_closest_word

_COMMANDS = {
    "check": check_command,
    "inventory": inventory_command,
    "explain": explain_command,
    "doctor": doctor_command,
    "diff": diff_command,
    "schema": schema,
    "demo": demo,
    "version": version,
}

_NOTHING_TO_CONVERT = (
    "There is nothing to convert: set the hub's spawner_class to gpuspawner.GPUSpawner and keep profile_list.\n"
)
_EPILOG = """\
exit codes:
  0  it is as it should be
  1  it was checked, and something is wrong: a file has errors, a choice cannot start, a cluster has a fault
  2  the call was wrong
  3  it could not be checked: a file cannot be read, a cluster does not answer
  4  diff: some choices of users differ, and the output names how
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code (see ``_EPILOG``).

    :param arguments: arguments of the command line without the program's name; None for ``sys.argv``.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Texts from a cluster or file may contain characters that the terminal's encoding lacks: escape these.
            stream.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if arguments is None else arguments
    out, notes = SafeOutput.wrap(sys.stdout), SafeOutput.wrap(sys.stderr)
    if list(arguments[:1]) == ["convert"]:  # the command is gone, but scripts may call it
        notes.write(_NOTHING_TO_CONVERT)
        return WRONG_CALL
    parsed = _parse_arguments(arguments)
    try:
        return int(parsed.run(parsed, out=out, notes=notes))
    except BrokenPipeError:  # the program that reads the output closed the pipe, as head does
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (GPUSpawnerError, OSError, UnicodeDecodeError) as error:
        notes.writelines(f"gpuspawner {parsed.command}: {sanitize(line)}\n" for line in _describe_error(error))
        return BAD if isinstance(error, SettingsError) else FAILED


def _parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments; exit with the usage of the command and a hint if an option is unknown."""
    parser = make_parser()
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        options = {word.strip("[],") for word in parsed.parser.format_usage().split() if "--" in word}
        near = (find_closest_word(word.partition("=")[0], options) for word in unknown if word.startswith("--"))
        hint = "".join(f"; did you mean {option}?" for option in near if option)
        parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return parsed


def _describe_error(error: Exception) -> list[str]:
    """Return the lines that say what is wrong: one for each problem."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return [f"{error.filename}: {error.strerror}"]
    if isinstance(error, GPUSpawnerError):
        return [str(type(error)(problem)) for problem in error.problems]
    return [str(error)]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, for :func:`main` and for the generator of docs/reference/commands.md."""
    parser = argparse.ArgumentParser(
        prog="gpuspawner",
        description="Tools for admins of a JupyterHub whose users pick GPUs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpuspawner {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in _COMMANDS.items():
        summary, _, details = (module.__doc__ or "").partition("\n\n")
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary}\n\n{details}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(command)
        command.set_defaults(run=module.run, parser=command)
    return parser
