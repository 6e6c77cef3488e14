# SPDX-License-Identifier: Apache-2.0
"""Edits as models get them wrong, after the reports that doc/decisions/0070-edits-compare-content.md names: each kind of
mistake with a snippet of each file, and what edit_file has to say to it."""

import unicodedata
from dataclasses import dataclass

C = '''/* parser.c */
#include "parser.h"

static int parse_line(struct parser *parser, const char *line)
{
\tif (!line || *line == '#')
\t\treturn 0;
\tparser->lines++;
\treturn parse_words(parser, line, "default");
}

int parse_file(struct parser *parser, FILE *file)
{
\tchar *line = NULL;

\twhile (read_line(file, &line) > 0)
\t\tif (parse_line(parser, line) < 0)
\t\t\treturn -1;
\tfree(line);
\treturn 0;
}
'''
PYTHON = '''"""Prices of a café."""

RATES = {"small": 3.5, "large": 5.0}


class Order:
    def __init__(self, size):
        self.size = size
        self.items = []

    def total(self):
        if not self.items:
            return 0
        price = RATES["small"] * len(self.items)
        return round(price, 2)

    def empty(self):
        self.items = []
        return 0
'''
TYPESCRIPT = '''import { open } from "./store";

export async function load(name: string): Promise<Item[]> {
  const store = await open(name);
  if (store.size < 1) {
    return [];
  }
  const items = store.items.map((item) => item.id > 0 ? item : "none");
  return items;
}

export function close(name: string): Item[] {
  return [];
}
'''.replace("\n", "\r\n")
MAKEFILE = '''PREFIX ?= /usr/local
CFLAGS += -O2 -Wall

all: program

program: main.o parse.o
\t@echo "linking $@ > out"
\t$(CC) $(CFLAGS) -o $@ $^
\t@chmod 755 "$@"

clean:
\trm -f *.o
\t@chmod 755 "$@"
'''
YAML = '''# Größe und Maß
service:
  name: "cloister"
  ports:
    - number: 8080
      protocol: "tcp"
      comment: "für Gäste <intern>"
  volumes:
    - path: /srv
      protocol: "tcp"
'''
MARKDOWN = '''# Notes

Read `first.md` before the rest.

- One: "what it is" -> the idea
  - with an indented part
  - and another, naïve one
- Two: how it is done

> One: see above

- Two: how it is done
'''


@dataclass
class Source:
    """A file, a snippet of three or more lines that is there once, and a line that is there twice."""
    name: str
    content: str
    first: int  # the snippet's first line
    last: int
    twice: str

    @property
    def end(self):
        return "\r\n" if "\r\n" in self.content else "\n"

    @property
    def lines(self):
        return self.content.split(self.end)[self.first - 1:self.last]

    @property
    def snippet(self):
        return "\n".join(self.lines)  # as a model writes it, whatever the file's lines end with

    def places(self, text):
        return [number for number, line in enumerate(self.content.split(self.end), 1) if text in line]


SOURCES = [Source("parser.c", C, 6, 9, "return 0;"), Source("order.py", PYTHON, 11, 15, "self.items = []"),
           Source("load.ts", TYPESCRIPT, 4, 8, "return [];"), Source("Makefile", MAKEFILE, 6, 8, '@chmod 755 "$@"'),
           Source("service.yaml", YAML, 4, 7, 'protocol: "tcp"'), Source("notes.md", MARKDOWN, 5, 7, "- Two: how it is done")]
NEW = "something else\n"


@dataclass
class Mistake:
    """What edit_file is given, and the error's code, kind and first line (None: none)."""
    name: str
    edits: list
    code: str
    kind: str
    line: int | None
    path: str | None = None
    stale: bool = False


def edit(old, new=NEW, **more):
    return {"old": old, "new": new, **more}


def numbered(source, form):
    return "\n".join(form.format(number) + line for number, line in enumerate(source.lines, source.first))


def indents(source, change):
    """The snippet with its lines' indentation changed."""
    return "\n".join(change(line[:len(line) - len(line.lstrip())]) + line.lstrip() for line in source.lines)


def of_the_snippet(source):
    """Mistakes in copying the snippet: (name, old, kind)."""
    lines, snippet = source.lines, source.snippet
    middle = len(lines) // 2
    yield "line numbers and a tab", numbered(source, "{:6d}\t"), "line_numbers"
    yield "line numbers and an arrow", numbered(source, "{:5d}→"), "line_numbers"
    yield "line numbers and a bar", numbered(source, "{}|"), "line_numbers"
    yield "line numbers and a colon", numbered(source, "{}: "), "line_numbers"
    yield "no indentation", indents(source, lambda _: ""), "white_space"
    yield "twice the indentation", indents(source, lambda blank: blank * 2 or " "), "white_space"
    yield "one column more", indents(source, lambda blank: blank + " "), "white_space"
    yield "spaces for tabs, or tabs for spaces", indents(
        source, lambda blank: blank.replace("\t", "    ") if "\t" in blank else "\t" * len(blank) or " "), "white_space"
    yield "white space behind the first line", lines[0] + "  \n" + "\n".join(lines[1:]), "white_space"
    yield "white space behind the last line", snippet + " \t", "white_space"
    yield "newlines written as \\n", snippet.replace("\n", "\\n"), "escaped"
    yield "a wrong character in the first line", lines[0][:-2] + "§" + lines[0][-1] + "\n" + "\n".join(lines[1:]), "different"
    yield "a wrong character in the last line", "\n".join(lines[:-1]) + "\n" + lines[-1][:-2] + "§" + lines[-1][-1], "different"
    yield "a line left out", "\n".join(lines[:middle] + lines[middle + 1:]), "different"
    yield "a line made up", "\n".join(lines[:middle] + ["made up"] + lines[middle:]), "different"
    yield "dots for the middle", "\n".join([lines[0], "    ...", lines[-1]]), "different"
    yield "a blank line more", "\n".join(lines[:middle] + [""] + lines[middle:]), "different"
    yield "the last line cut and gone on", snippet + " and more", "different"
    yield "an end of another case", "\n".join(lines[:-1]) + "\n" + lines[-1].upper().replace("ß", "SS"), "different"
    yield "a comment added", lines[0] + "  # changed\n" + "\n".join(lines[1:]), "different"
    if '"' in snippet:
        yield "quotes with backslashes", snippet.replace('"', '\\"'), "escaped"
        yield "single quotes", snippet.replace('"', "'"), "different"
        yield "typographic quotes", snippet.replace('"', "“"), "look_alike"
    if "<" in snippet or ">" in snippet:
        yield "an escaped angle bracket", snippet.replace("<", "&lt;").replace(">", "&gt;"), "different"
    if unicodedata.normalize("NFD", snippet) != snippet:
        yield "accents as characters of their own", unicodedata.normalize("NFD", snippet), "different"
    if source.end == "\n":
        yield "lines that end with \\r\\n", snippet.replace("\n", "\r\n"), "line_endings"


def of(source):
    """All mistakes with the file."""
    snippet, twice = source.snippet, source.places(source.twice)
    for name, old, kind in of_the_snippet(source):
        yield Mistake(name, [edit(old)], "NO_MATCH", kind, source.first)
    absent = "qqqq zzzz\nwwww"
    yield Mistake("a text from elsewhere", [edit(absent)], "NO_MATCH", "absent", None)
    yield Mistake("an edit that was made", [edit(absent, snippet)], "NO_MATCH", "already", source.first)
    yield Mistake("a line of many", [edit(source.twice)], "AMBIGUOUS_MATCH", "several", twice[0])
    yield Mistake("one good and one absent", [edit(snippet), edit(absent)], "NO_MATCH", "absent", None)
    yield Mistake("one good and one of many", [edit(source.content.split(source.end)[0]), edit(source.twice)],
                  "AMBIGUOUS_MATCH", "several", twice[0])
    yield Mistake("the same text twice", [edit(snippet), edit(snippet, "other")], "EDITS_OVERLAP", "overlap", source.first)
    yield Mistake("one within the other", [edit(snippet), edit(source.lines[0].strip(), "other")], "EDITS_OVERLAP", "overlap",
                  source.first)
    yield Mistake("nothing changed", [edit(snippet, snippet)], "INVALID_ARGUMENTS", None, None)
    yield Mistake("no old text", [edit("")], "INVALID_ARGUMENTS", None, None)
    yield Mistake("no edits", [], "INVALID_ARGUMENTS", None, None)
    yield Mistake("a wrong path", [edit(snippet)], "NOT_FOUND", None, None, path="src/" + source.name)
    yield Mistake("a version of before", [edit(snippet)], "STALE_FILE", None, None, stale=True)


MISTAKES = [(source, mistake) for source in SOURCES for mistake in of(source)]
