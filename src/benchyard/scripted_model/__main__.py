"""`python -m benchyard.scripted_model`: the scripted model as a program."""

import asyncio
import signal
from pathlib import Path

import click

from benchyard.errors import UsageError, refused
from benchyard.scripted_model import scripts
from benchyard.scripted_model.scripts import Script
from benchyard.scripted_model.server import ScriptedModel
from benchyard.scripted_model.solutions import failing, solving

_EXAMPLE = """\
\b
A script says which conversations it is for, and what is answered in them:

\b
    scripts:
      - match: Fix the bug          # a piece of the prompt; without it: all others
        steps:
          - shell: ls -la           # the agent's shell tool, whatever it is called
          - {status: 429, retry_after: 1}
          - shell: sed -i s/a/b/ x.py
            text: I think I have it.
            usage: {input_tokens: 1200, cached_tokens: 1000, output_tokens: 40}
          - drop: true              # the connection, in the middle of the answer
          - text: Fixed.

\b
Also: tool with arguments, reasoning, latency, chunk_delay; garbage, hang, times;
in a script: regex instead of match, name, final, without_tools.
`curl URL/__ledger` shows what was asked, `curl -X POST URL/__reset` forgets it.

\b
    python -m benchyard.scripted_model --script bug.yaml &
    ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=any claude -p "Fix the bug"
"""
_QUICKSTART = {"solved": solving, "failed": failing}


@click.command(epilog=_EXAMPLE, context_settings={"max_content_width": 100})
@click.option(
    "--script", "files", multiple=True, type=click.Path(path_type=Path), help="A file of scripts; repeatable."
)
@click.option(
    "--quickstart",
    type=click.Choice(list(_QUICKSTART)),
    help="Play what solves the benchmark that comes with us, or what solves nothing of it.",
)
@click.option("--port", default=0, show_default="a free one", type=click.IntRange(0, 65535))
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--key", help="The only key that is taken; without it, any is.")
def main(files: tuple[Path, ...], quickstart: str | None, host: str, port: int, key: str | None) -> None:
    """Serve a model that plays scripts, print its URL, and run until killed.

    It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini, streaming or not.
    """
    try:
        played = _scripts(files, quickstart)
    except UsageError as error:
        raise click.ClickException(error.message) from error
    try:
        asyncio.run(_serve(ScriptedModel(played, key=key, address=(host, port))))
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host}:{port}: {refused(error)}") from error


def _scripts(files: tuple[Path, ...], quickstart: str | None) -> list[Script]:
    played = [script for file in files for script in scripts.read(file)]
    return [*played, *(_QUICKSTART[quickstart]() if quickstart else ())]


async def _serve(model: ScriptedModel) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with model:
        click.echo(model.url)
        await stop.wait()


if __name__ == "__main__":
    main()
