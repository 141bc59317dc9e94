"""`benchyard doctor`: what works on this machine and on the server's, and what to do about the rest."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import click

from benchyard.cli.connect import connect
from benchyard.cli.machine import Finding, Machine, Verdict, look
from benchyard.cli.render import clean, hanging, output_option, show
from benchyard.errors import BenchyardError
from benchyard.hosts import leaks
from benchyard.models.doctor import DoctorView
from benchyard.settings import default_data_folder

MARKS = {Verdict.GOOD: ("ok  ", "green"), Verdict.LESS: ("less", "yellow"), Verdict.BAD: ("no  ", "red")}
_INDENT = 6


@click.command()
@click.option("--server/--no-server", "ask_server", default=True, help="Ask the server too (the default).")
@click.option("--leaks", "only_leaks", is_flag=True, help="List only what is left of devboxes that are gone.")
@output_option
def doctor(ask_server: bool, only_leaks: bool, output: str) -> int:
    """Say what works on this machine, and what to do about the rest.

    The server is started if none runs, since only it knows which devboxes it can make; --no-server looks at
    this machine only. --leaks lists the processes, mounts, control groups, namespaces, sockets, folders,
    containers and images of this data folder that no living devbox explains, with or without a server; none
    is started.

    \b
      benchyard doctor
      benchyard doctor --no-server -o json
      benchyard doctor --leaks
    """
    data = default_data_folder(os.environ).absolute()
    if only_leaks:
        return list_leaks(data, output)
    findings = [*look(Machine.here(data))]
    if ask_server:
        findings += ask()
    worst = any(finding.verdict is Verdict.BAD for finding in findings)
    show({"ok": not worst, "findings": [asdict(each) for each in findings]}, output, _lines(findings))
    return 1 if worst else 0


def list_leaks(data: Path, output: str) -> int:
    """Show what is left of devboxes; the exit status."""
    found = leaks.find(data)
    lines = [f"{leak.kind}  {clean(leak.name)}: {clean(leak.detail)}" for leak in found]
    lines.append(
        "start a server on this folder: it clears what an earlier one left" if found else "nothing is left"
    )
    show({"ok": not found, "leaks": [asdict(leak) for leak in found]}, output, "\n".join(lines))
    return 1 if found else 0


def ask() -> list[Finding]:
    """What the server says about itself; a server that cannot be had is a finding, too."""
    try:
        with connect() as client:
            return list(server_findings(client.doctor(), client.server.url))
    except BenchyardError as error:
        return [Finding("server", Verdict.BAD, error.message, _text(error.details.get("remedy")))]


def server_findings(told: DoctorView, url: str) -> Iterator[Finding]:
    """The server's answer as findings."""
    mode = f", mode {told.mode}" if told.mode else ""
    yield Finding("server", Verdict.GOOD, f"{url}, driver {told.driver}{mode}")
    for failed in told.tried:
        yield Finding(f"mode {failed.mode}", Verdict.LESS, "did not work", failed.reason)
    yield Finding("devboxes have", Verdict.GOOD, ", ".join(told.capabilities) or "nothing")
    for missing in told.missing:
        yield Finding(missing.capability, Verdict.LESS, "not in devboxes", missing.remedy)
    if told.builder_remedy:
        yield Finding("dockerfiles", Verdict.LESS, "cannot be built", told.builder_remedy)
    elif told.builder:
        yield Finding("dockerfiles", Verdict.GOOD, f"built by {told.builder}")
    here = ", ".join(each.name for each in told.dependencies if each.is_here)
    if here:
        yield Finding("programs", Verdict.GOOD, here)
    for lacking in told.dependencies:
        if not lacking.is_here:
            found = f"not on the server; needed for {lacking.needed_for}"
            yield Finding(lacking.name, Verdict.LESS, found, lacking.remedy)
    for stand_in in told.stand_ins:
        yield Finding("stand-in", Verdict.GOOD, stand_in)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _lines(findings: Iterable[Finding]) -> str:
    lines = []
    for each in findings:
        mark, colour = MARKS[each.verdict]
        first, *rest = hanging(f"{clean(each.name)}: {clean(each.found)}", _INDENT)
        lines += [f"{click.style(mark, fg=colour)}  {first}", *rest]
        if each.remedy and each.verdict is not Verdict.GOOD:
            first, *rest = hanging(clean(each.remedy), _INDENT)
            lines += [" " * _INDENT + first, *rest]
    return "\n".join(lines)
