"""JavaScript: jest by npm, over modules that all exercises share."""

import asyncio
import json
import re
from pathlib import Path

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.scorers import programs
from benchyard.scorers.polyglot_languages.base import Language, Tools

MODULES = {
    "@babel/core": "7.25.2",
    "@exercism/babel-preset-javascript": "0.2.1",
    "babel-jest": "29.7.0",
    "core-js": "3.37.1",
    "jest": "29.7.0",
}
"""What runs tests; the official image has types and a linter beside it, which no test uses."""
_INSTALL_SECONDS = 600
_LAYOUT = 1


class JavascriptLanguage(Language):
    """The image's modules in /npm-install, as in the official image, or those of the npm registry."""

    programs = ("node", "npm")
    command = (
        '[ -e node_modules ] || ln -s "${MODULES:-/npm-install/node_modules}" node_modules && npm run test'
    )
    complete = (
        re.compile(rb"^Test Suites: +[1-9]\d* passed, [1-9]\d* total", re.MULTILINE),
        re.compile(rb"^Ran all test suites", re.MULTILINE),
    )
    passed = re.compile(rb"^Tests: +(?:\d+ \w+, )*[1-9]\d* passed, \d+ total", re.MULTILINE)
    skipped = re.compile(rb"^Tests: +(?:\d+ \w+, )*?(\d+) skipped", re.MULTILINE)
    sources = ("js", "mjs", "cjs", "jsx")
    reserved = (
        r"(?:.*/)?(?:(?:[^/]*\.)?(?:spec|test)\.[cm]?jsx?$|__(?:tests|mocks|snapshots)__/)"
        r"|(?:.*/)?(?:[^/]*\.config(?:\.[^/]*)?|jest[.-][^/]*)$"
    )
    replaced = (".spec.js", re.compile(rb"\bxtest\("), b"test(")
    image = Tools(values={"CI": "true", "NO_COLOR": "1", "npm_config_update_notifier": "false"})

    async def of_server(self, kits: Kits) -> Tools:
        key = f"npm {_LAYOUT} {json.dumps(MODULES)}"
        target = programs.target(key)

        async def fill(folder: Path) -> None:
            await _install(folder, kits.downloads("npm"))

        kit = Kit(await kits.folder(key, fill), target)
        return Tools(
            (kit,),
            {**self.image.values, "MODULES": f"{target}/node_modules"},
            ("jest 29.7.0 and what it needs from the npm registry, in the newest fitting versions",),
        )


async def _install(folder: Path, cache: Path) -> None:
    npm = await asyncio.to_thread(programs.find, "npm")
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": MODULES}))
    process = await asyncio.create_subprocess_exec(
        npm,
        *("install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--cache", cache),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_INSTALL_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError as error:
        raise ScorerFailed(f"npm took longer than {_INSTALL_SECONDS} s to install jest") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ScorerFailed(f"jest cannot be had of the npm registry: {said.decode(errors='replace')[-1000:]}")
