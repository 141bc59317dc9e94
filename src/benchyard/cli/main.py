"""The `benchyard` command: its entrance, and its exit statuses and messages for errors."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from benchyard.cli.lazy_group import CommandEntry, LazyGroup
from benchyard.cli.notices import explain, say, tell
from benchyard.errors import BenchyardError

# httpx imports its own command line, and that rich and pygments: a sixth of the time of most commands.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

COMMANDS = {
    "devbox": CommandEntry("benchyard.cli.devbox.commands:devbox", "Create, use and end devboxes."),
    "blueprint": CommandEntry("benchyard.cli.image.blueprint:blueprint", "Build what devboxes start from."),
    "scenario": CommandEntry(
        "benchyard.cli.benchmark.scenario:scenario", "Write, keep and check what agents are run on."
    ),
    "benchmark": CommandEntry(
        "benchyard.cli.benchmark.commands:benchmark", "Write, keep and check sets of scenarios."
    ),
    "job": CommandEntry(
        "benchyard.cli.job.commands:job", "Run agents on benchmarks; `benchmark-job` is the same."
    ),
    "trial": CommandEntry(
        "benchyard.cli.run.trial:trial", "Look at one attempt of an agent: scorers, logs, trajectory."
    ),
    "baseline": CommandEntry(
        "benchyard.cli.baseline:baseline", "Name results that later jobs are compared with."
    ),
    "run": CommandEntry("benchyard.cli.run.commands:run", "Look at runs that were made through the SDK."),
    "agent": CommandEntry(
        "benchyard.cli.agent:agent",
        "Register, list and install agents: the programs that are run on scenarios.",
    ),
    "snapshot": CommandEntry("benchyard.cli.image.snapshot:snapshot", "Keep the disks of devboxes."),
    "image": CommandEntry("benchyard.cli.image.commands:image", "Import and list what devboxes start from."),
    "secret": CommandEntry("benchyard.cli.secret:secret", "Keep values that devboxes get as environment."),
    "gateway-config": CommandEntry(
        "benchyard.cli.gateway_config:gateway_config", "Let devboxes use HTTP APIs without seeing the key."
    ),
    "network-policy": CommandEntry(
        "benchyard.cli.network_policy:network_policy", "Say what devboxes may reach."
    ),
    "webhook": CommandEntry(
        "benchyard.cli.webhook:webhook", "Tell other programs of ends of jobs and verdicts of gates."
    ),
    "object": CommandEntry("benchyard.cli.object:object_", "Store files on the server."),
    "key": CommandEntry("benchyard.cli.key:key", "Make and revoke API keys."),
    "serve": CommandEntry("benchyard.cli.serve:serve", "Run a server in the foreground."),
    "server": CommandEntry(
        "benchyard.cli.server:server", "Look after a server: status, env, disk, backup, stop."
    ),
    "doctor": CommandEntry(
        "benchyard.cli.doctor:doctor", "Say what works on this machine, and what to do about the rest."
    ),
    "completion": CommandEntry(
        "benchyard.cli.completion:completion", "Complete commands and names in bash, zsh or fish."
    ),
    "version": CommandEntry("benchyard.cli.version:version", "Print the version."),
}

HELP = """Run AI agents on benchmarks, in devboxes that start in milliseconds.

\b
  benchyard devbox create --name box
  benchyard devbox exec box -- echo hello
  benchyard devbox shell box
  benchyard job run --agent oracle --benchmark quickstart --watch

With no server configured, a command starts one for you on this machine. Another server is chosen by
BENCHYARD_URL and BENCHYARD_API_KEY.
"""

COMPLETION = "_BENCHYARD_COMPLETE"
"""Variable that is set by a shell that completes a line."""

INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + 13

cli = click.version_option(package_name="benchyard", message="%(version)s")(
    LazyGroup(
        COMMANDS,
        name="benchyard",
        help=HELP,
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
    )
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every error becomes one clear message and an exit status."""
    try:
        if arguments is None and COMPLETION in os.environ:
            return _complete(os.environ[COMPLETION])
        given = list(sys.argv[1:] if arguments is None else arguments)
        with cli.make_context("benchyard", given) as context:
            status = cli.invoke(context)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.format_message())
        return 0
    except click.ClickException as error:
        explain(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return BROKEN_PIPE
    except BenchyardError as error:
        return _fail(error)
    except Exception as error:  # noqa: BLE001 (the last boundary: a user sees a sentence, not a traceback)
        return _fail(BenchyardError(_surprise(error)), error)


def _complete(instruction: str) -> int:
    status: int = import_module("benchyard.cli.completion").answer(cli, instruction)
    return status


def _fail(error: BenchyardError, cause: Exception | None = None) -> int:
    if os.environ.get("BENCHYARD_DEBUG") == "1":
        raise error from cause
    tell(error.message)
    remedy = error.details.get("remedy")
    if isinstance(remedy, str):
        say(f"  {remedy}")
    return error.exit_code


def _surprise(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"unexpected {type(error).__name__}: {error}; BENCHYARD_DEBUG=1 shows where it comes from"


def _abandon_stdout() -> None:
    """Redirect stdout, whose reader is gone, so that Python's flush at exit does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
