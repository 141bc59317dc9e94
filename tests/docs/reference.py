"""The parts of reference pages that are derived from the code; `make docs` writes them, a test compares."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping

import click

from benchyard import errors
from benchyard.cli.main import cli
from benchyard.cli.serve import setting_option
from benchyard.models.scenarios import NOTES, RULES_IN_METADATA, ScenarioOptions
from benchyard.reports.problems.digests import signals
from benchyard.settings import Settings, setting_fields
from tests.house.tree import ROOT, modules

PART = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end -->)", re.S)


def settings_table(owner: type[Settings] = Settings) -> Iterator[str]:
    """Every setting of the server: its option and variable, its default, and what it is for."""
    yield "| option | variable | default | |"
    yield "|---|---|---|---|"
    for field in setting_fields(owner):
        option = setting_option(field)
        default = f"`{option.default}`" if option.show_default else ""
        yield f"| `--{field.option}` | `{field.variable}` | {default} | {cell(field.setting.help)} |"


def scenario_fields_table() -> Iterator[str]:
    """Every optional field of a scenario: what leaving it out means, where it is, and its docstring."""
    yield "| field | left out | metadata | `scenario.yaml` | Harbor task | |"
    yield "|---|---|---|---|---|---|"
    said = {
        name: text for each in ScenarioOptions.__mro__[:3] for name, text in field_docstrings(each).items()
    }
    keys = {name: f"`{key}`" for key, name in RULES_IN_METADATA.items()}
    for name, note in sorted(NOTES.items()):
        default = f"`{json.dumps(note.default)}`" if note.default else ""
        harbor = note.harbor or "`[metadata.benchyard]`"
        folder = note.folder or "the same"
        yield f"| `{name}` | {default} | {keys.get(name, '')} | {folder} | {harbor} | {cell(said[name])} |"


def field_docstrings(owner: type) -> dict[str, str]:
    """field -> the string that stands under it."""
    (class_,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(class_, ast.ClassDef)
    found = {}
    for field, text in zip(class_.body, class_.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                found[name] = said
    return found


def errors_table() -> Iterator[str]:
    """Every error: its code, HTTP status, exit code, and whether to try again."""
    yield "| code | status | exit code | try again | |"
    yield "|---|---|---|---|---|"
    classes = [var for var in vars(errors).values() if inspect.isclass(var)]
    for each in classes:
        if issubclass(each, errors.BenchyardError):
            again = "yes" if each.retryable else "no"
            summary = (each.__doc__ or "").strip()
            yield f"| `{each.code}` | {each.http_status} | {each.exit_code} | {again} | {summary} |"


def commands() -> Iterator[str]:
    """Every command of the command line with its options."""
    yield from command_lines(cli, click.Context(cli, info_name="benchyard"))


def command_lines(command: click.Command, context: click.Context) -> Iterator[str]:
    level = "##" if context.parent and not context.parent.parent else "###"
    if isinstance(command, click.Group):
        if context.parent:
            yield from [f"{level} {context.command_path}", "", *help_lines(command)]
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner and not inner.hidden:
                yield from command_lines(inner, click.Context(inner, parent=context, info_name=name))
        return
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield from [f"{level} {context.command_path}", "", "```text", " ".join(usage.split()), "```", ""]
    yield from help_lines(command)
    records = [param.get_help_record(context) for param in command.get_params(context)]
    shown = [(names, text) for names, text in filter(None, records) if text and "--help" not in names]
    if shown:
        rows = [f"| `{cell(names)}` | {cell(text)} |" for names, text in shown]
        yield from ["| option | |", "|---|---|", *rows, ""]


def help_lines(command: click.Command) -> Iterator[str]:
    """A command's help; what click is told not to wrap becomes a block."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        example = first.strip() == "\b"
        yield from ["```text", textwrap.dedent(rest), "```", ""] if example else [paragraph, ""]


def rooms_table() -> Iterator[str]:
    """Every room and what its own first sentence says."""
    yield "| room | |"
    yield "|---|---|"
    for module in modules():
        if module.name.count(".") == 1 and module.room != "__main__":
            name = module.room + ("/" if module.path.name == "__init__.py" else ".py")
            summary, _, _ = (ast.get_docstring(module.tree) or "").partition("\n\n")
            yield f"| `{name}` | {cell(summary)} |"


def signals_table() -> Iterator[str]:
    """Every signal of a problem: what it finds, and what usually helps."""
    yield "| signal | finds that | what usually helps |"
    yield "|---|---|---|"
    for name, each in signals().items():
        yield f"| `{name}` | {cell(each.summary)} | {cell(each.helps)} |"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES = (
    ROOT / "ARCHITECTURE.md",
    ROOT / "docs/guides/finding-problems.md",
    *sorted((ROOT / "docs/reference").glob("*.md")),
)
PARTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "settings": settings_table,
    "scenario_fields": scenario_fields_table,
    "errors": errors_table,
    "commands": commands,
    "rooms": rooms_table,
    "signals": signals_table,
}


def derived(text: str) -> str:
    """The page's text with its derived parts written anew."""

    def written(match: re.Match[str]) -> str:
        lines = "\n".join(PARTS[match[2]]()).strip()
        return f"{match[1]}\n{lines}\n\n{match[3]}"

    return PART.sub(written, text)


def main() -> None:
    """Write the derived parts of every reference page."""
    for page in PAGES:
        page.write_text(derived(page.read_text()))


if __name__ == "__main__":
    main()
