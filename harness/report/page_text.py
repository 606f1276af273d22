"""How does a section's docstring read on a page: what are its headings and paragraphs?"""

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

HEADING = re.compile(r"(?P<heading>[A-Z][a-z]+)\.\s+(?P<text>\S.*)")
CODE = re.compile(r"`([^`]+)`")


def paragraphs(docstring: str) -> tuple[tuple[str, Markup], ...]:
    """(heading, text) of every paragraph, without the first line, which is the question.

    `Expect.   Reverse KL ahead` starts a paragraph under that heading; text without a heading
    stands under an empty one. Not a word is changed.
    """
    lines = docstring.strip().splitlines()[1:]
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        start = HEADING.fullmatch(line)
        if start:
            found.append((start["heading"], [start["text"]]))
        elif line.strip():
            if not found:
                found.append(("", []))
            found[-1][1].append(line.strip())
    return tuple((heading, marked(words)) for heading, words in found)


def marked(lines: Sequence[str]) -> Markup:
    """Lines as one escaped text, what stands between backticks as code."""
    text = str(escape(re.sub(r"\s+", " ", " ".join(lines))))
    return Markup(CODE.sub(r"<code>\1</code>", text))  # escaped one line above
