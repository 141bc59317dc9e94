"""A devbox's own log: lines about the engine's actions on it, in a small file."""

from pathlib import Path

from pydantic import ValidationError

from benchyard.models.executions import LogLine

MAX_BYTES = 1024**2
_MAX_MESSAGE = 4000


class DevboxLog:
    """Appends and reads the lines; a file that grows too big loses its older half."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Make the folder."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def note(self, devbox_id: str, line: LogLine) -> None:
        """Append a line."""
        file = self._file(devbox_id)
        if line.message and len(line.message) > _MAX_MESSAGE:
            line = line.model_copy(update={"message": line.message[:_MAX_MESSAGE] + "..."})
        with file.open("a", encoding="utf-8") as handle:
            handle.write(line.model_dump_json(exclude_none=True) + "\n")
            size = handle.tell()
        if size > MAX_BYTES:
            self._halve(file)

    def lines(self, devbox_id: str) -> list[LogLine]:
        """Return all lines, oldest first."""
        file = self._file(devbox_id)
        if not file.exists():
            return []
        return [line for text in file.read_text(encoding="utf-8").split("\n") if (line := _line(text))]

    def forget(self, devbox_id: str) -> None:
        """Remove the log of a devbox."""
        self._file(devbox_id).unlink(missing_ok=True)

    def _file(self, devbox_id: str) -> Path:
        return self._folder / f"{devbox_id}.jsonl"

    def _halve(self, file: Path) -> None:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        partial = file.with_suffix(".part")
        partial.write_text("".join(lines[len(lines) // 2 :]), encoding="utf-8")
        partial.replace(file)


def _line(text: str) -> LogLine | None:
    try:
        return LogLine.model_validate_json(text)
    except ValidationError:
        # A crash can leave half a line at the end.
        return None
