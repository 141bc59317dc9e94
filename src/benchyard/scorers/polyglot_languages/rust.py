"""Rust: cargo test, also of the tests that are marked to be ignored."""

import asyncio
import re
from pathlib import Path

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.scorers import programs
from benchyard.scorers.polyglot_languages.base import Language, Tools

_SYSTEM = Path("/usr")
_ASK_SECONDS = 60


class RustLanguage(Language):
    """Cargo, without a network: crates must be in the image."""

    programs = ("cargo", "cc")
    command = 'PATH="${RUST_FOLDER:+$RUST_FOLDER/bin:}$PATH" cargo test -- --include-ignored'
    complete = (re.compile(rb"^running [1-9]\d* tests?$", re.MULTILINE),)
    passed = re.compile(rb"^test result: ok\. [1-9]\d* passed", re.MULTILINE)
    sources = ("rs",)
    reserved = r"build\.rs$|(?:benches|examples)/"
    image = Tools(values={"CARGO_NET_OFFLINE": "true", "CARGO_TERM_COLOR": "never"})

    async def of_server(self, kits: Kits) -> Tools:
        folder = await _toolchain()
        told = ("the server's Rust, without crates",)
        if folder == _SYSTEM:
            return Tools((), self.image.values, told)
        target = programs.target(f"rust {programs.digest(folder / 'bin/rustc')}")
        return Tools((Kit(folder, target),), {**self.image.values, "RUST_FOLDER": target}, told)


async def _toolchain() -> Path:
    """Where the Rust of this machine is."""
    found = await asyncio.to_thread(programs.find, "rustc")
    # A launcher of rustup tells by its name which program it is to start.
    process = await asyncio.create_subprocess_exec(
        "rustc",
        *("--print", "sysroot"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError as error:
        process.kill()
        raise ScorerFailed(f"{found} does not say where its toolchain is") from error
    folder = Path(said.decode().strip() or "/nowhere")
    if process.returncode != 0 or not (folder / "bin/rustc").exists():
        raise ScorerFailed(f"{found} has no toolchain; `rustup default stable`, or install Debian's cargo")
    return folder
