"""A Dockerfile as a list of instructions, each with its line numbers, words and variables."""

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchyard.errors import BuildFailed

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]")
_OPERATOR = re.compile(r":?[-+?]|")
LARGEST = 1024 * 1024
"""Size of the largest Dockerfile, of the largest text that its variables make, and of all values of ARG."""
_DEEPEST = 50
_MOST_INSTRUCTIONS = 5000


def split_words(text: str, escape: str = "\\") -> list[str]:
    """Return the words between white space, with their quotes and escapes unchanged."""
    words: list[str] = []
    word, quote, at = "", "", 0
    while at < len(text):
        letter = text[at]
        if letter == escape and quote != "'" and at + 1 < len(text):
            word += text[at : at + 2]
            at += 2
            continue
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter.isspace():
            if word:
                words.append(word)
            word, at = "", at + 1
            continue
        word += letter
        at += 1
    return [*words, word] if word else words


def expand_variables(
    text: str, values: Mapping[str, str], *, escape: str = "\\", keep_quotes: bool = False
) -> str:
    """Fill in `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}`, but not between single quotes.

    With `keep_quotes`, quotes stay in place, as in the text of a here-document. Raises ValueError for any
    other form, and for a result that is too large.
    """
    return _Expansion(text, values, escape, keep_quotes=keep_quotes).run()


class _Expansion:
    """A single pass over a text."""

    def __init__(self, text: str, values: Mapping[str, str], escape: str, *, keep_quotes: bool) -> None:
        self._text = text
        self._values = values
        self._escape = escape
        self._keep_quotes = keep_quotes
        self._at = 0
        self._depth = 0
        self._left = LARGEST

    def run(self, stop: str = "") -> str:
        """Return the expanded text up to `stop`, or to the end."""
        done, quote = "", ""
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter == stop and not quote:
                break
            if letter == "$" and quote != "'":
                done += self._variable()
                continue
            self._at += 1
            if letter == self._escape and quote != "'":
                done += self._escaped(quote)
            elif letter in "'\"" and quote in ("", letter):
                quote = "" if quote else letter
                done += letter if self._keep_quotes else ""
            else:
                done += letter
        return done

    def _escaped(self, quote: str) -> str:
        following = self._text[self._at : self._at + 1]
        self._at += len(following)
        if not following or (quote and following not in ('"', "$", self._escape)):
            return self._escape + following
        return following

    def _variable(self) -> str:
        self._at += 1
        if self._text[self._at : self._at + 1] == "{":
            return self._braced()
        match = _NAME.match(self._text, self._at)
        if not match:
            return "$"
        self._at = match.end()
        return self._counted(self._values.get(match[0], ""))

    def _counted(self, value: str) -> str:
        """Return the value of a variable; raises ValueError if those of a text are too large together."""
        self._left -= len(value)
        if self._left < 0:
            raise ValueError(f"its variables make a text of more than {LARGEST} letters")
        return value

    def _braced(self) -> str:
        match = _NAME.match(self._text, self._at + 1)
        if not match:
            raise ValueError("a variable in braces has no name")
        name, self._at = match[0], match.end()
        operator = _OPERATOR.match(self._text, self._at)
        sign = operator[0] if operator else ""
        self._at += len(sign)
        word = self._word() if sign else ""
        if self._text[self._at : self._at + 1] != "}":
            raise ValueError(f"${{{name}... is not of a form that is understood")
        self._at += 1
        return self._chosen(name, sign, word)

    def _word(self) -> str:
        """Return the text behind an operator, up to the brace; raises ValueError if nested too deep."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} variables are nested in each other")
        word = self.run("}")
        self._depth -= 1
        return word

    def _chosen(self, name: str, sign: str, word: str) -> str:
        value = self._values.get(name)
        is_there = bool(value) if sign.startswith(":") else value is not None
        if sign.endswith("?") and not is_there:
            raise ValueError(f"{name}: {word or 'is not set'}")
        if sign.endswith("+"):
            return word if is_there else ""
        return self._counted(value or "") if is_there or not sign else word


KNOWN = frozenset(
    (
        *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL"),
        *("MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
    )
)
_DIRECTIVE = re.compile(r"#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(?=\S)(.+)")
"""Pattern of a line without blanks at its ends."""
_FLAG = re.compile(r"--\S+\s*")
_FRONTEND = re.compile(r"#\s*syntax\s*=", re.I)
_HEREDOC = re.compile(r"(\d*)<<(-?)([^<]+)")
_WITH_HEREDOCS = ("RUN", "COPY", "ADD")


@dataclass(frozen=True)
class Heredoc:
    """A here-document: its delimiter, and the lines between."""

    name: str
    content: str
    is_chomped: bool
    """`<<-`: tabs at the beginning of lines are removed."""
    is_expanded: bool
    """Variables are filled in, because the delimiter has no quotes."""

    @property
    def text(self) -> str:
        """Return the content in the form of a file."""
        return re.sub(r"^\t+", "", self.content, flags=re.M) if self.is_chomped else self.content


@dataclass(frozen=True)
class Instruction:
    """An instruction with its continuation lines joined."""

    first: int
    """Number of its first line, from 1."""
    last: int
    name: str
    """In capitals."""
    flags: tuple[str, ...]
    rest: str
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def text(self) -> str:
        """Return the instruction on one line, without its here-documents."""
        return " ".join((self.name, *self.flags, self.rest)).strip()

    def flag(self, name: str) -> str | None:
        """Return the value of `--name=value`."""
        for flag in self.flags:
            if flag.startswith(f"--{name}="):
                return flag.partition("=")[2]
        return None


@dataclass(frozen=True)
class Dockerfile:
    """All instructions, and the text they were parsed from."""

    lines: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    escape: str = "\\"

    def replaced(self, changes: Mapping[Instruction, Sequence[str]]) -> str:
        """Return the text with other lines for some instructions; every other line keeps its number."""
        lines = list(self.lines)
        for instruction, new in changes.items():
            span = instruction.last - instruction.first + 1
            assert len(new) <= span
            lines[instruction.first - 1 : instruction.last] = [*new, *["#"] * (span - len(new))]
        return "\n".join(lines) + "\n"

    def global_values(self, args: Mapping[str, str]) -> Mapping[str, str]:
        """Return the values that ARG before the first FROM gives to all FROMs."""
        values: dict[str, str] = {}
        for instruction in self.instructions:
            if instruction.name == "FROM":
                break
            values |= arg_values(instruction, args, values, self.escape)
        return values


def arg_values(
    instruction: Instruction, args: Mapping[str, str], known: Mapping[str, str], escape: str
) -> Mapping[str, str]:
    """Return the values that an ARG instruction sets: those given, else the defaults.

    Raises ValueError if they are too large.
    """
    values: dict[str, str] = {}
    all_known = ChainMap(values, dict(known))
    left = LARGEST - sum(map(len, known.values()))
    for word in split_words(instruction.rest, escape):
        name, is_set, default = word.partition("=")
        if name in args:
            values[name] = args[name]
        elif is_set:
            value = expand_variables(default, all_known, escape=escape)
            left -= len(value)
            if left < 0:
                raise ValueError(f"the values of ARG and ENV are larger than {LARGEST} letters together")
            values[name] = value
    return values


def parse_dockerfile(text: str) -> Dockerfile:
    """Parse a Dockerfile; raises BuildFailed with the line that is wrong."""
    if len(text) > LARGEST:
        raise BuildFailed(
            f"the Dockerfile is larger than {LARGEST} bytes: put what it holds into the context"
        )
    if "\0" in text:
        raise BuildFailed("the Dockerfile has a null byte: is it a text file?")
    lines = tuple(line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n"))
    reader = _Reader(lines, _escape(lines))
    instructions = tuple(reader.instructions())
    if not any(instruction.name == "FROM" for instruction in instructions):
        raise BuildFailed("the Dockerfile has no FROM: begin it with `FROM image`, or `FROM scratch`")
    first = next(instruction for instruction in instructions if instruction.name != "ARG")
    if first.name != "FROM":
        raise instruction_error(first, f"{first.name} before FROM: only ARG may stand there")
    return Dockerfile(lines, instructions, reader.escape)


def instruction_error(instruction: Instruction, problem: str) -> BuildFailed:
    """Return the error for an instruction."""
    message = f"Dockerfile line {instruction.first}: {problem}\n  {instruction.text[:200]}"
    return BuildFailed(message, line=instruction.first)


def is_heredoc(word: str) -> bool:
    """Tell whether a word of RUN or COPY opens a here-document."""
    return _HEREDOC.fullmatch(word) is not None


def without_frontend(text: str) -> str:
    """Return a Dockerfile without the line that names another frontend.

    Engines would pull it from a registry or, if they do not know the line, ignore the directives after it.
    Every line keeps its number.
    """
    lines = text.split("\n")
    count = next((at for at, line in enumerate(lines) if not _DIRECTIVE.fullmatch(line.strip())), 0)
    lines_left = [line for line in lines[:count] if not _FRONTEND.match(line.strip())]
    # The empty comments come last, since the first plain comment ends the directives.
    return "\n".join([*lines_left, *["#"] * (count - len(lines_left)), *lines[count:]])


def _escape(lines: Sequence[str]) -> str:
    """Return the escape character, which a directive on the first lines may change."""
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if not match:
            break
        if match[1].lower() == "escape":
            if match[2] not in ("\\", "`"):
                raise BuildFailed(
                    f"the Dockerfile's escape directive is {match[2][:20]!r}: it may be \\ or `"
                )
            return match[2]
    return "\\"


class _Reader:
    """Reader of the lines, in one pass."""

    def __init__(self, lines: Sequence[str], escape: str) -> None:
        self._lines = lines
        self._at = 0
        self.escape = escape

    def instructions(self) -> list[Instruction]:
        """Return all instructions, in order."""
        found = []
        while self._at < len(self._lines):
            first = self._at + 1
            joined = self._logical_line()
            if not joined:
                continue
            found.append(self._instruction(first, joined))
            if len(found) > _MOST_INSTRUCTIONS:
                raise BuildFailed(
                    f"the Dockerfile has more than {_MOST_INSTRUCTIONS} instructions: join some"
                )
        return found

    def _logical_line(self) -> str:
        """Return the next line with its continuation lines; empty for a comment or an empty line."""
        line = self._take()
        if _is_nothing(line):
            return ""
        pieces = [line.lstrip()]
        while pieces[-1].rstrip(" \t").endswith(self.escape):
            pieces[-1] = pieces[-1].rstrip(" \t").removesuffix(self.escape)
            while self._at < len(self._lines) and _is_nothing(self._lines[self._at]):
                self._at += 1
            if self._at >= len(self._lines):
                break
            pieces.append(self._take())
        return "".join(pieces).strip()

    def _take(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def _instruction(self, first: int, joined: str) -> Instruction:
        name, flags, rest = _parts(joined)
        instruction = Instruction(first, self._at, name, flags, rest)
        if name not in KNOWN:
            raise instruction_error(instruction, f"unknown instruction {name[:50]}")
        if not rest and name not in ("CMD", "ENTRYPOINT"):
            raise instruction_error(instruction, f"{name} needs an argument")
        if name not in _WITH_HEREDOCS or rest.startswith("["):
            return instruction
        heredocs = tuple(
            self._heredoc(instruction, *opened) for opened in _heredocs_of_line(rest, self.escape)
        )
        return Instruction(first, self._at, name, flags, rest, heredocs)

    def _heredoc(self, instruction: Instruction, name: str, chomped: bool, expanded: bool) -> Heredoc:  # noqa: FBT001
        content: list[str] = []
        while self._at < len(self._lines):
            line = self._take()
            if (line.lstrip("\t") if chomped else line) == name:
                text = "".join(f"{each}\n" for each in content)
                return Heredoc(name, text, chomped, expanded)
            content.append(line)
        raise instruction_error(
            instruction, f"the here-document {name!r} has no end: put {name} on a line of its own"
        )


def _is_nothing(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _parts(joined: str) -> tuple[str, tuple[str, ...], str]:
    """Return an instruction's name, its flags, and the unparsed rest."""
    name, _, rest = joined.partition(" ") if " " in joined else joined.partition("\t")
    if "\t" in name:
        name, _, more = name.partition("\t")
        rest = f"{more} {rest}"
    rest, at = rest.strip(), 0
    flags = []
    while flag := _FLAG.match(rest, at):
        flags.append(flag[0].rstrip())
        at = flag.end()
    return name.upper(), tuple(flags), rest[at:]


def _heredocs_of_line(rest: str, escape: str) -> list[tuple[str, bool, bool]]:
    """Return a line's here-documents: delimiter, whether tabs are cut, whether variables are filled in."""
    opened = []
    for word in split_words(rest, escape):
        match = _HEREDOC.fullmatch(word)
        if match:
            name = expand_variables(match[3].replace("$", f"{escape}$"), {}, escape=escape)
            opened.append((name, bool(match[2]), not set(match[3]) & {"'", '"', escape}))
    return opened
