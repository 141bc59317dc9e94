"""In the place of the installer of `uv`: makes the kit's be found where the installer would put it."""

import os
import shutil
import sys
from pathlib import Path

_NAMES = ("uv", "uvx")


def main(argv: list[str]) -> int:
    """Write `env` and links into the folder for programs of whoever calls."""
    own = Path(argv[0]).absolute().parent
    home = Path(os.environ.get("HOME") or "/root")
    folder = Path(os.environ.get("UV_INSTALL_DIR") or os.environ.get("XDG_BIN_HOME") or home / ".local/bin")
    _clear_way(folder)
    for name in (*_NAMES, "env"):
        _remove(folder / name)
    for name in _NAMES:
        (folder / name).symlink_to(own / name)
    # The kit's folder comes first again, whatever was put before it meanwhile.
    (folder / "env").write_text(f'export PATH="{own}:{folder}:$PATH"\n')
    sys.stderr.write(f"uv: {own} of the verifier kit is used\n")
    return 0


def _clear_way(folder: Path) -> None:
    """Make a folder, in the place of whatever is in the way to it and is none."""
    for part in (*reversed(folder.parents), folder):
        if part.exists() and not part.is_dir():
            _remove(part)
        part.mkdir(exist_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
