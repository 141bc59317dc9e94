"""Words and variables of a Dockerfile, split and filled in as its reference says."""

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]")


def split_words(text: str, escape: str = "\\") -> list[str]:
    """Words between white space, with their quotes and escapes as they are."""
    words: list[str] = []
    word, quote, at = "", "", 0
    while at < len(text):
        each = text[at]
        if each == escape and quote != "'" and at + 1 < len(text):
            word += text[at : at + 2]
            at += 2
            continue
        if quote:
            quote = "" if each == quote else quote
        elif each in "'\"":
            quote = each
        elif each.isspace():
            if word:
                words.append(word)
            word, at = "", at + 1
            continue
        word += each
        at += 1
    return [*words, word] if word else words


def expand(text: str, values: Mapping[str, str], *, escape: str = "\\", keep_quotes: bool = False) -> str:
    """Fill in `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}`; nothing is filled in between `'`.

    With `keep_quotes` quotes stay where they are, as in the text of a here-document. Raises ValueError for a
    form that is none of these.
    """
    return _Expansion(text, values, escape, keep_quotes=keep_quotes).run()


class _Expansion:
    """One pass over a text."""

    def __init__(self, text: str, values: Mapping[str, str], escape: str, *, keep_quotes: bool) -> None:
        self._text = text
        self._values = values
        self._escape = escape
        self._keep_quotes = keep_quotes
        self._at = 0

    def run(self, stop: str = "") -> str:
        """Everything up to `stop`, or to the end."""
        done, quote = "", ""
        while self._at < len(self._text):
            each = self._text[self._at]
            if each == stop and not quote:
                break
            if each == "$" and quote != "'":
                done += self._variable()
                continue
            self._at += 1
            if each == self._escape and quote != "'":
                done += self._escaped(quote)
            elif each in "'\"" and quote in ("", each):
                quote = "" if quote else each
                done += each if self._keep_quotes else ""
            else:
                done += each
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
        found = _NAME.match(self._text, self._at)
        if not found:
            return "$"
        self._at = found.end()
        return self._values.get(found[0], "")

    def _braced(self) -> str:
        found = _NAME.match(self._text, self._at + 1)
        if not found:
            raise ValueError("a variable in braces has no name")
        name, self._at = found[0], found.end()
        operator = re.compile(r":?[-+?]|").match(self._text, self._at)
        sign = operator[0] if operator else ""
        self._at += len(sign)
        word = self.run("}") if sign else ""
        if self._text[self._at : self._at + 1] != "}":
            raise ValueError(f"${{{name}... is not of a form that is understood")
        self._at += 1
        return self._chosen(name, sign, word)

    def _chosen(self, name: str, sign: str, word: str) -> str:
        value = self._values.get(name)
        is_there = bool(value) if sign.startswith(":") else value is not None
        if sign.endswith("?") and not is_there:
            raise ValueError(f"{name}: {word or 'is not set'}")
        if sign.endswith("+"):
            return word if is_there else ""
        return (value or "") if is_there or not sign else word
