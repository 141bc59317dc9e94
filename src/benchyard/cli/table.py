"""Tables for terminals of any width: no word, id or number is ever broken.

Where a table is wider than the terminal, sentences are wrapped between words, names are shortened in the
middle, and columns are left out in an order that each table decides. Where even that is too wide, every row
becomes a block of lines. What is not printed to a terminal is neither wrapped nor shortened.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.cells import cell_len, set_cell_size

GAP = "  "
LEAST_NAME = 18
"""The least that is left of a name which is shortened."""
LEAST_SENTENCE = 24
"""The least width of a column of sentences."""
_CUT = "…"


@dataclass(frozen=True)
class Narrow:
    """What a table gives up, where it is wider than the terminal."""

    shorten: Sequence[str] = ()
    """Columns of names that may be shortened in the middle."""
    drop: Sequence[str] = ()
    """Columns that may be left out, the first first."""
    brief: Mapping[str, str] = field(default_factory=dict)
    """What some names, in cells or titles, may be told as before any is shortened."""
    goes_on: bool = False
    """Whether the columns that are left out follow in a table of their own."""

    def briefly(self) -> "Narrow":
        """The same for a table in which the brief names stand already."""
        return replace(self, shorten=[self.brief.get(each, each) for each in self.shorten], brief={})


@dataclass
class Table:
    """Titles and rows, as they are laid out for one width."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    narrow: Narrow = field(default_factory=Narrow)
    dropped: list[str] = field(default_factory=list)
    """Columns that were left out by `lines`."""
    is_blocks: bool = False
    """Whether `lines` made a block of each row, without a line of titles."""

    def lines(self, width: int | None = None) -> list[str]:
        """The table, its titles first, within a width; None is as wide as it gets."""
        natural = [self._natural(column) for column in range(len(self.titles))]
        kept = list(range(len(self.titles)))
        self.dropped, self.is_blocks = [], False
        if width is None or _total(natural) <= width:
            return list(_aligned([self.titles, *self.rows], natural))
        if self.narrow.brief:
            return self._brief_lines(width)
        kept = [column for column in kept if any(row[column] for row in self.rows)]
        least = [self._least(column, natural[column]) for column in range(len(self.titles))]
        columns = {self.titles[column]: column for column in kept}
        droppable = [columns[title] for title in self.narrow.drop if title in columns]
        while _total([least[column] for column in kept]) > width:
            if not droppable:
                self.dropped, self.is_blocks = [], True
                return list(self._blocks(width))
            kept.remove(droppable[0])
            self.dropped.append(self.titles[droppable.pop(0)])
        widths = self._shared_out(kept, natural, least, width)
        body = [self._wrapped(row, kept, widths) for row in self.rows]
        head = [self.titles[column] for column in kept]
        return [line for row in [[head], *body] for line in _aligned(row, widths)]

    def _brief_lines(self, width: int) -> list[str]:
        titles, *rows = (
            [self.narrow.brief.get(cell, cell) for cell in row] for row in [self.titles, *self.rows]
        )
        told = Table(titles, rows, self.narrow.briefly())
        lines = told.lines(width)
        self.dropped, self.is_blocks = told.dropped, told.is_blocks
        # A line of its own has room for a whole name.
        return list(self._blocks(width)) if told.is_blocks else lines

    def _natural(self, column: int) -> int:
        return max(cell_len(row[column]) for row in [self.titles, *self.rows])

    def _is_sentence(self, column: int) -> bool:
        """Whether a column may be wrapped: its longest cell is of several words, and of some length."""
        longest = max((row[column] for row in self.rows), key=cell_len, default="")
        words = [word for word in longest.split(" ") if word[:1].isalpha()]
        return len(words) > 1 and cell_len(longest) > LEAST_SENTENCE

    def _least(self, column: int, natural: int) -> int:
        title = cell_len(self.titles[column])
        if self.titles[column] in self.narrow.shorten:
            return max(title, min(natural, LEAST_NAME))
        if self._is_sentence(column):
            words = (word for row in self.rows for word in row[column].split(" "))
            return max(title, LEAST_SENTENCE, max(map(cell_len, words), default=0))
        return natural

    def _shared_out(self, kept: list[int], natural: list[int], least: list[int], width: int) -> list[int]:
        """The widths of the columns that are kept: what is left over goes to names, then to sentences."""
        widths = {column: least[column] for column in kept}
        left = width - _total(list(widths.values()))
        sentences = [column for column in kept if self._is_sentence(column)]
        for column in kept:
            if column not in sentences:
                more = min(left, natural[column] - widths[column])
                widths[column] += more
                left -= more
        while left and (wanting := [column for column in sentences if widths[column] < natural[column]]):
            # Who has the most lines at its width gets more of it.
            widths[max(wanting, key=lambda column: natural[column] / widths[column])] += 1
            left -= 1
        return [widths[column] for column in kept]

    def _wrapped(self, row: Sequence[str], kept: list[int], widths: list[int]) -> list[list[str]]:
        """The lines of one row."""
        cells = []
        for column, width in zip(kept, widths, strict=True):
            if self.titles[column] in self.narrow.shorten:
                cells.append([shorten_name(row[column], width)])
            else:
                cells.append(wrap_words(row[column], width))
        height = max(map(len, cells))
        return [[cell[line] if line < len(cell) else "" for cell in cells] for line in range(height)]

    def _blocks(self, width: int) -> Iterator[str]:
        """One block for each row, a line for each of its cells that says something."""
        indent = max(map(cell_len, self.titles)) + len(GAP)
        for number, row in enumerate(self.rows):
            if number:
                yield ""
            for title, cell in zip(self.titles, row, strict=True):
                for line, text in enumerate(
                    wrap_words(cell, max(width - indent, LEAST_SENTENCE)) if cell else []
                ):
                    yield set_cell_size("" if line else title, indent) + text


def wrap_words(text: str, width: int) -> list[str]:
    """Lines of whole words; a word that is wider than that stays whole."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(joined) > width:
            lines.append(word)
        else:
            lines[-1] = joined
    return lines


def shorten_name(name: str, width: int) -> str:
    """A name that is too long, with its middle left out."""
    if cell_len(name) <= width:
        return name
    head = (width - 1) // 2
    tail = width - 1 - head
    return set_cell_size(name, head).rstrip() + _CUT + _ending(name, tail)


def terminal_width() -> int:
    """How many columns the terminal has; `COLUMNS` overrides it."""
    return shutil.get_terminal_size().columns


def _ending(name: str, width: int) -> str:
    ending = ""
    for char in reversed(name):
        if cell_len(char + ending) > width:
            break
        ending = char + ending
    return ending


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _aligned(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for row in rows:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield GAP.join(cells).rstrip()
