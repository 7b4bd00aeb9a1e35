"""What is wrong in a grant file, told as compilers do: place, sentence, source line, caret, way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.errors import GrantError
from mcpwrap.grant.render import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwrap.grant.grant import Where

MAX_SHOWN = 8
"""Problems printed for one file: more would scroll the first, which is often their cause, away."""
MAX_SHOWN_LINE = 120
"""Characters of a source line that are quoted: a terminal's width with the margin."""
MAX_SENTENCE = 400
"""Characters of a sentence or hint, which may quote a key of any length."""


class Problem(NamedTuple):
    """One thing wrong. `source` is the text of the line, `width` the characters the caret underlines."""

    where: Where
    what: str
    hint: str = ""
    source: str = ""
    width: int = 1

    @property
    def sentence(self) -> str:
        return f"{printable(str(self.where), MAX_SENTENCE)}: {printable(self.what, MAX_SENTENCE)}"

    def text(self) -> str:
        lines = [self.sentence]
        number = str(self.where.line)
        blank = " " * len(number)
        if self.source.strip():
            start = 0
            if len(self.source) > MAX_SHOWN_LINE:
                start = max(0, self.where.column - MAX_SHOWN_LINE // 2)
            shown = printable(self.source.replace("\t", " ")[start : start + MAX_SHOWN_LINE])
            margin = self.where.column - 1 - start
            width = max(1, min(self.width, len(shown) - margin))
            lines += [f"  {number} | {shown}", f"  {blank} | {' ' * margin}{'^' * width}"]
        lines += [f"  {blank} = {printable(line, MAX_SENTENCE)}" for line in self.hint.split("\n") if line]
        return "\n".join(lines)


class Wrong(ValueError):
    """Why one value of a grant is refused; `hint` is the way out, what to write instead."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


class BadGrant(GrantError):
    """A grant file with problems; `problems` in file order, at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems[0].sentence, self.problems[0].hint)

    def diagnostics(self) -> str:
        texts = [problem.text() for problem in self.problems[:MAX_SHOWN]]
        more = len(self.problems) - MAX_SHOWN
        if more > 0:
            texts.append(f"{printable(self.problems[0].where.file, MAX_SENTENCE)}: {more} more not shown")
        return "\n".join(texts)


def nearest(word: str, names: Iterable[str]) -> str:
    """Return the name most like `word`, empty if none is."""
    from difflib import get_close_matches  # only needed once something is wrong

    found = get_close_matches(word[:64], list(names), n=1, cutoff=0.6)
    return found[0] if found else ""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return a hint line that names the nearest valid name, else all of them."""
    names = list(names)
    near = nearest(word, names)
    return f'did you mean "{near}"?' if near else "valid here: " + ", ".join(names)
