"""Tables for terminals of any width, which never break a word, id or number.

If a table is wider than the terminal, sentences are wrapped between words, names are shortened in the middle,
and columns are left out in an order that each table decides. If that is still too wide, every row becomes a
block of lines. Outside a terminal, no text is wrapped or shortened.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.cells import cell_len, set_cell_size

GAP = "  "
LEAST_NAME = 18
"""Least width of a shortened name."""
LEAST_SENTENCE = 24
"""Least width of a column of sentences."""
_CUT = "…"


@dataclass(frozen=True)
class Narrow:
    """Ways to make a table narrower than its natural width."""

    shorten: Sequence[str] = ()
    """Columns of names that may be shortened in the middle."""
    drop: Sequence[str] = ()
    """Columns that may be left out, in this order."""
    brief: Mapping[str, str] = field(default_factory=dict)
    """Short forms of some names in cells or titles, used before any name is shortened."""
    goes_on: bool = False
    """True if the omitted columns follow in a table of their own."""

    def briefly(self) -> "Narrow":
        """Return the same for a table that already has the short forms."""
        return replace(self, shorten=[self.brief.get(each, each) for each in self.shorten], brief={})


@dataclass
class Table:
    """Titles and rows, and their layout for one width."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    narrow: Narrow = field(default_factory=Narrow)
    dropped: list[str] = field(default_factory=list)
    """Columns that `lines` left out."""
    is_blocks: bool = False
    """True if `lines` made a block of each row, without a line of titles."""

    def lines(self, width: int | None = None) -> list[str]:
        """Return the table within a width, its titles first; None is the natural width."""
        natural = [self._natural(column) for column in range(len(self.titles))]
        kept = list(range(len(self.titles)))
        self.dropped, self.is_blocks = [], False
        if width is None or _total(natural) <= width:
            return list(_align([self.titles, *self.rows], natural))
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
        return [line for row in [[head], *body] for line in _align(row, widths)]

    def _brief_lines(self, width: int) -> list[str]:
        titles, *rows = (
            [self.narrow.brief.get(cell, cell) for cell in row] for row in [self.titles, *self.rows]
        )
        told = Table(titles, rows, self.narrow.briefly())
        lines = told.lines(width)
        self.dropped, self.is_blocks = told.dropped, told.is_blocks
        # A block's line has room for the whole name.
        return list(self._blocks(width)) if told.is_blocks else lines

    def _natural(self, column: int) -> int:
        return max(cell_len(row[column]) for row in [self.titles, *self.rows])

    def _is_sentence(self, column: int) -> bool:
        """Tell whether a column may be wrapped: its longest cell has several words and a certain length."""
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
        """Return the widths of the columns: spare room goes to names first, then to sentences."""
        widths = {column: least[column] for column in kept}
        left = width - _total(list(widths.values()))
        sentences = [column for column in kept if self._is_sentence(column)]
        for column in kept:
            if column not in sentences:
                more = min(left, natural[column] - widths[column])
                widths[column] += more
                left -= more
        while left and (wanting := [column for column in sentences if widths[column] < natural[column]]):
            # The column that needs the most lines at its width is widened.
            widths[max(wanting, key=lambda column: natural[column] / widths[column])] += 1
            left -= 1
        return [widths[column] for column in kept]

    def _wrapped(self, row: Sequence[str], kept: list[int], widths: list[int]) -> list[list[str]]:
        """Return the lines of one row."""
        cells = []
        for column, width in zip(kept, widths, strict=True):
            if self.titles[column] in self.narrow.shorten:
                cells.append([shorten_name(row[column], width)])
            else:
                cells.append(wrap_words(row[column], width))
        height = max(map(len, cells))
        return [[cell[line] if line < len(cell) else "" for cell in cells] for line in range(height)]

    def _blocks(self, width: int) -> Iterator[str]:
        """Yield a block for each row, with a line for each cell that is not empty."""
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
    """Return lines of whole words; a word wider than the line stays whole."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(joined) > width:
            lines.append(word)
        else:
            lines[-1] = joined
    return lines


def shorten_name(name: str, width: int) -> str:
    """Shorten a name that is too long in its middle."""
    if cell_len(name) <= width:
        return name
    head = (width - 1) // 2
    tail = width - 1 - head
    return set_cell_size(name, head).rstrip() + _CUT + _ending(name, tail)


def terminal_width() -> int:
    """Return the number of columns of the terminal; `COLUMNS` overrides it."""
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


def _align(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for row in rows:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield GAP.join(cells).rstrip()
