# SPDX-License-Identifier: Apache-2.0
"""Mistakes that models make in tool calls, and the observation that each of them gets.

The observation alone must tell the model what to do next. If the tool accepts the mistake, the row has the result and the
exact notes. Otherwise it has the error's code, words of its message and the exact notes. ROOT stands for the path of the
workspace's root, NAME for the name of that directory."""

import json

import pytest

FILES = {
    "big.py": "print('big')\n", "small.py": "x = 1\ny = 2\nz = 3\n", "README.md": "# Read me\n", "config.yaml": "a: 1\n",
    "package.json": "{}\n", "my-file.txt": "mine\n", "src/main.c": "int main(void) { return 0; }\n", "src/utils.py": "TODO = 1\n",
    "src/lib/parser.js": "parse()\n", "tests/test_app.py": "def test(): pass\n", "docs/guide.md": "guide\n", "Makefile": "all:\n",
    "src/index.ts": "export {}\n", "a/one.txt": "1\n", "a/two.txt": "2\n"}
MANY = "many"  # a directory with more names than cloister-files compares: LIMIT_NEAR_ENTRIES


def taken(tool, arguments, *notes, shows=""):
    return tool, arguments, None, shows, notes


def refused(tool, arguments, code, words, *notes):
    return tool, arguments, code, words, notes


def name(given, meant):
    return f'"{given}" was taken as "{meant}"'


def number(argument, value):
    return f'"{argument}" was taken as the number {value}; give it without quotes'


def no_effect(argument):
    return f'"{argument}" has no effect'


def boolean(argument, value):
    return f'"{argument}" was taken as {value}; give it without quotes'


def lowered(argument, value, most):
    return f'"{argument}" was lowered from {value} to its maximum, {most}'


def outside(guess=None):
    root = 'The workspace\'s root is "ROOT"'
    return f'{root}, and paths are relative to it; did you mean "{guess}"?' if guess else f"{root}; give a path relative to it"


READ, WRITE, LIST, RUN, SEARCH = "read_file", "write_file", "list_directory", "run_command", "search_files"
INVALID, MISSING, OUT = "INVALID_ARGUMENTS", "NOT_FOUND", "PATH_OUTSIDE_WORKSPACE"
SEED = "Invalid path: access outside workspace is not allowed"
SMALL = {"path": "small.py"}

STRINGS = [
    taken(READ, {**SMALL, "start_line": "2"}, number("start_line", 2), shows="y = 2"),
    taken(READ, {**SMALL, "end_line": "1"}, number("end_line", 1), shows="x = 1"),
    taken(READ, {**SMALL, "start_line": "2", "end_line": "3"}, number("start_line", 2), number("end_line", 3), shows="z = 3"),
    taken(READ, {**SMALL, "start_line": "1", "end_line": 2}, number("start_line", 1)),
    taken(READ, {**SMALL, "start_line": 1.0}, shows="x = 1"),
    taken(READ, {**SMALL, "start_line": None, "end_line": None}, shows="z = 3"),
    taken(RUN, {"command": "echo hi", "timeout_ms": "5000"}, number("timeout_ms", 5000), shows="hi"),
    taken(RUN, {"command": "echo hi", "timeout_ms": 20000.0}, shows="hi"),
    taken(SEARCH, {"pattern": "TODO", "max_results": "10"}, number("max_results", 10), shows="src/utils.py"),
    taken(LIST, {"path": ".", "recursive": "true"}, boolean("recursive", "true"), shows="src/lib/parser.js"),
    taken(LIST, {"path": "src", "recursive": "false"}, boolean("recursive", "false"), shows="src/main.c"),
    taken(WRITE, {"path": "w/1", "content": "x", "create_dirs": "true"}, boolean("create_dirs", "true")),
    refused(WRITE, {"path": "none/1", "content": "x", "create_dirs": "false"}, MISSING, "No such file", boolean("create_dirs", "false")),
    refused(READ, {**SMALL, "start_line": "two"}, INVALID, 'argument "start_line" must be an integer of at least 1'),
    refused(READ, {**SMALL, "start_line": "1-3"}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "start_line": "1.5"}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "start_line": "2.0"}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "start_line": " 2"}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "start_line": "002"}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "start_line": "+2"}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "start_line": ""}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "start_line": "null"}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "start_line": [2]}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "start_line": True}, INVALID, '"start_line" must be an integer'),
    refused(READ, {**SMALL, "end_line": "-1"}, INVALID, '"end_line" must be an integer of at least 1', number("end_line", -1)),
    refused(READ, {**SMALL, "end_line": "all"}, INVALID, '"end_line" must be an integer'),
    refused(READ, {**SMALL, "end_line": "99999999999999999999"}, INVALID, '"end_line" must be an integer'),
    refused(LIST, {"path": ".", "recursive": "True"}, INVALID, '"recursive" must be true or false'),
    refused(LIST, {"path": ".", "recursive": "yes"}, INVALID, '"recursive" must be true or false'),
    refused(LIST, {"path": ".", "recursive": 1}, INVALID, '"recursive" must be true or false'),
    refused(LIST, {"path": ".", "recursive": ""}, INVALID, '"recursive" must be true or false'),
    refused(WRITE, {"path": "w/2", "content": "x", "create_dirs": "1"}, INVALID, '"create_dirs" must be true or false'),
    refused(RUN, {"command": "true", "timeout_ms": "30s"}, INVALID, '"timeout_ms" must be an integer from 1 to 3600000'),
    refused(RUN, {"command": "true", "timeout_ms": "5 seconds"}, INVALID, '"timeout_ms" must be an integer'),
    refused(SEARCH, {"pattern": "x", "max_results": "ten"}, INVALID, '"max_results" must be an integer from 1 to 50'),
]

NUMBERS = [
    taken(SEARCH, {"pattern": "TODO", "max_results": 100}, lowered("max_results", 100, 50), shows="src/utils.py"),
    taken(SEARCH, {"pattern": "TODO", "max_results": 51}, lowered("max_results", 51, 50)),
    taken(SEARCH, {"pattern": "TODO", "max_results": 50}),
    taken(SEARCH, {"pattern": "TODO", "max_results": 1e6}, lowered("max_results", 1000000, 50)),
    taken(SEARCH, {"pattern": "TODO", "max_results": "1000"}, number("max_results", 1000), lowered("max_results", 1000, 50)),
    taken(RUN, {"command": "echo hi", "timeout_ms": 7200000}, lowered("timeout_ms", 7200000, 3600000), shows="hi"),
    taken(RUN, {"command": "echo hi", "timeout_ms": 999999999999}, lowered("timeout_ms", 999999999999, 3600000)),
    taken(RUN, {"command": "echo hi", "timeout_ms": "3600001"}, number("timeout_ms", 3600001), lowered("timeout_ms", 3600001, 3600000)),
    taken(READ, {**SMALL, "start_line": 1, "end_line": 100000}, shows="z = 3"),
    taken(READ, {**SMALL, "end_line": 9223372036854775807}, shows="z = 3"),
    refused(SEARCH, {"pattern": "TODO", "max_results": 0}, INVALID, '"max_results" must be an integer from 1 to 50'),
    refused(SEARCH, {"pattern": "TODO", "max_results": -1}, INVALID, '"max_results" must be an integer from 1 to 50'),
    refused(SEARCH, {"pattern": "TODO", "max_results": "0"}, INVALID, "from 1 to 50", number("max_results", 0)),
    refused(RUN, {"command": "true", "timeout_ms": 0}, INVALID, '"timeout_ms" must be an integer from 1'),
    refused(RUN, {"command": "true", "timeout_ms": -1}, INVALID, '"timeout_ms" must be an integer from 1'),
    refused(RUN, {"command": "true", "timeout_ms": 0.5}, INVALID, '"timeout_ms" must be an integer from 1'),
    refused(READ, {**SMALL, "start_line": 0}, INVALID, '"start_line" must be an integer of at least 1'),
    refused(READ, {**SMALL, "start_line": -5}, INVALID, '"start_line" must be an integer of at least 1'),
    refused(READ, {**SMALL, "start_line": 1, "end_line": -1}, INVALID, '"end_line" must be an integer of at least 1'),
    refused(READ, {**SMALL, "start_line": 3, "end_line": 2}, INVALID, '"end_line" must not be less than "start_line"'),
    refused(READ, {**SMALL, "start_line": 50}, INVALID, "3 lines"),
]

NAMES = [
    taken(READ, {"file_path": "small.py"}, name("file_path", "path"), shows="x = 1"),
    taken(READ, {"filepath": "small.py"}, name("filepath", "path"), shows="x = 1"),
    taken(READ, {"filePath": "small.py"}, name("filePath", "path")),
    taken(READ, {"FilePath": "small.py"}, name("FilePath", "path")),
    taken(READ, {"file-path": "small.py"}, name("file-path", "path")),
    taken(READ, {"filename": "small.py"}, name("filename", "path")),
    taken(READ, {"file_name": "small.py"}, name("file_name", "path")),
    taken(READ, {"target_file": "small.py"}, name("target_file", "path")),
    taken(READ, {"relative_path": "small.py"}, name("relative_path", "path")),
    taken(READ, {"absolute_path": "ROOT/small.py"}, name("absolute_path", "path"), shows="x = 1"),
    taken(READ, {"Path": "small.py"}, name("Path", "path")),
    taken(READ, {"PATH": "small.py"}, name("PATH", "path")),
    taken(READ, {**SMALL, "startLine": 2}, name("startLine", "start_line"), shows="y = 2"),
    taken(READ, {**SMALL, "start": 2, "end": 2}, name("start", "start_line"), name("end", "end_line"), shows="y = 2"),
    taken(READ, {**SMALL, "line_start": 1, "line_end": 1}, name("line_start", "start_line"), name("line_end", "end_line")),
    taken(READ, {**SMALL, "from_line": 2, "to_line": 3}, name("from_line", "start_line"), name("to_line", "end_line")),
    taken(READ, {"file_path": "small.py", "startLine": "2", "endLine": "2"}, name("file_path", "path"), name("startLine", "start_line"),
          name("endLine", "end_line"), number("start_line", 2), number("end_line", 2), shows="y = 2"),
    taken(READ, {"target_file": "small.py", "start_line_one_indexed": 1, "end_line_one_indexed_inclusive": 2}, name("target_file", "path"),
          name("start_line_one_indexed", "start_line"), name("end_line_one_indexed_inclusive", "end_line")),
    taken(WRITE, {"file_path": "w/3", "content": "x"}, name("file_path", "path")),
    taken(WRITE, {"path": "w/4", "contents": "x"}, name("contents", "content")),
    taken(WRITE, {"path": "w/5", "text": "x"}, name("text", "content")),
    taken(WRITE, {"path": "w/6", "file_text": "x"}, name("file_text", "content")),
    taken(WRITE, {"path": "w/7", "file_content": "x"}, name("file_content", "content")),
    taken(WRITE, {"filename": "w/8", "contents": "x"}, name("filename", "path"), name("contents", "content")),
    taken(WRITE, {"path": "w/9", "content": "x", "createDirs": True}, name("createDirs", "create_dirs")),
    taken(WRITE, {"path": "w/10", "content": "x", "create_directories": "true"}, name("create_directories", "create_dirs"),
          boolean("create_dirs", "true")),
    taken(LIST, {"directory": "src"}, name("directory", "path"), shows="src/main.c"),
    taken(LIST, {"dir": "src"}, name("dir", "path"), shows="src/main.c"),
    taken(LIST, {"dir_path": "src"}, name("dir_path", "path")),
    taken(LIST, {"directory_path": "src"}, name("directory_path", "path")),
    taken(LIST, {"folder": "src"}, name("folder", "path")),
    taken(LIST, {"relative_workspace_path": "src"}, name("relative_workspace_path", "path")),
    taken(LIST, {"path": ".", "glob": "*.md"}, name("glob", "pattern"), shows="README.md"),
    taken(LIST, {"path": "src", "Recursive": True}, name("Recursive", "recursive"), shows="parser.js"),
    taken(LIST, {"path": "src", "recurse": True}, name("recurse", "recursive"), shows="parser.js"),
    taken(RUN, {"cmd": "echo hi"}, name("cmd", "command"), shows="hi"),
    taken(RUN, {"Command": "echo hi"}, name("Command", "command"), shows="hi"),
    taken(RUN, {"command_line": "echo hi"}, name("command_line", "command")),
    taken(RUN, {"shell_command": "echo hi"}, name("shell_command", "command")),
    taken(RUN, {"bash_command": "echo hi"}, name("bash_command", "command")),
    taken(RUN, {"cmd": "echo hi", "timeoutMs": "9000"}, name("cmd", "command"), name("timeoutMs", "timeout_ms"), number("timeout_ms", 9000)),
    taken(SEARCH, {"query": "TODO"}, name("query", "pattern"), shows="src/utils.py"),
    taken(SEARCH, {"regex": "TODO"}, name("regex", "pattern"), shows="src/utils.py"),
    taken(SEARCH, {"search_term": "TODO"}, name("search_term", "pattern")),
    taken(SEARCH, {"search_pattern": "TODO"}, name("search_pattern", "pattern")),
    taken(SEARCH, {"regexp": "TODO", "directory": "src"}, name("regexp", "pattern"), name("directory", "path"), shows="src/utils.py"),
    taken(SEARCH, {"pattern": "TODO", "glob": "*.py"}, name("glob", "file_pattern"), shows="src/utils.py"),
    taken(SEARCH, {"pattern": "TODO", "include": "*.py"}, name("include", "file_pattern"), shows="src/utils.py"),
    taken(SEARCH, {"pattern": "TODO", "filePattern": "*.py"}, name("filePattern", "file_pattern")),
    taken(SEARCH, {"pattern": "TODO", "maxResults": 5}, name("maxResults", "max_results")),
    taken(SEARCH, {"pattern": "TODO", "head_limit": 5}, name("head_limit", "max_results")),
    taken(SEARCH, {"query": "TODO", "resultLimit": "200"}, name("query", "pattern"), name("resultLimit", "max_results"),
          number("max_results", 200), lowered("max_results", 200, 50), shows="src/utils.py"),
    refused(READ, {"path": "small.py", "file_path": "small.py"}, INVALID, '"file_path" means the same as "path"; give only "path"'),
    refused(READ, {"file_path": "small.py", "filename": "small.py"}, INVALID, '"filename" means the same as "file_path"; give only "path"'),
    refused(RUN, {"command": "true", "cmd": "false"}, INVALID, '"cmd" means the same as "command"; give only "command"'),
    refused(SEARCH, {"pattern": "x", "query": "y"}, INVALID, '"query" means the same as "pattern"; give only "pattern"'),
    refused(WRITE, {"path": "w/no", "content": "x", "text": "y"}, INVALID, 'give only "content"'),
    refused(READ, {"file_path": None}, INVALID, '"path" is required', name("file_path", "path")),
    refused(READ, {"file_path": ""}, INVALID, '"path" must not be empty', name("file_path", "path")),
    refused(READ, {"file_path": 7}, INVALID, '"path" must be a string', name("file_path", "path")),
    refused(READ, {"file_path": "smal.py"}, MISSING, 'did you mean "small.py"?', name("file_path", "path")),
    refused(RUN, {"cmd": "sudo true"}, "COMMAND_BLOCKED", "sudo", name("cmd", "command")),
    refused(READ, {"file_path": "../secret"}, OUT, SEED, name("file_path", "path"), outside("secret")),
]

UNKNOWN = [
    refused(READ, {"file": "small.py"}, INVALID, 'argument "file" is not known; use "path", "start_line", "end_line"; did you mean "path"?'),
    refused(READ, {"pth": "small.py"}, INVALID, 'did you mean "path"?'),
    refused(READ, {**SMALL, "strt_line": 1}, INVALID, 'did you mean "start_line"?'),
    refused(READ, {**SMALL, "end_lin": 1}, INVALID, 'did you mean "end_line"?'),
    refused(READ, {**SMALL, "offset": 1}, INVALID, 'did you mean "start_line"?'),
    refused(READ, {**SMALL, "limit": 10}, INVALID, 'argument "limit" is not known; use "path", "start_line", "end_line"'),
    refused(READ, {**SMALL, "encoding": "utf-8"}, INVALID, 'argument "encoding" is not known; use "path"'),
    refused(READ, {**SMALL, "lines": "1-2"}, INVALID, 'argument "lines" is not known'),
    refused(READ, {**SMALL, "view_range": [1, 2]}, INVALID, 'argument "view_range" is not known; use "path", "start_line", "end_line"'),
    taken(READ, {**SMALL, "reason": "to look"}, no_effect("reason"), shows="x = 1"),
    refused(READ, {"arguments": SMALL}, INVALID, 'argument "arguments" is not known; use "path"'),
    refused(READ, {"": "small.py"}, INVALID, 'argument "" is not known; use "path"'),
    refused(WRITE, {"path": "w/no", "data": "x"}, INVALID, 'did you mean "content"?'),
    refused(WRITE, {"path": "w/no", "body": "x"}, INVALID, 'did you mean "content"?'),
    refused(WRITE, {"path": "w/no", "contnet": "x"}, INVALID, 'did you mean "content"?'),
    refused(WRITE, {"path": "w/no", "content": "x", "append": True}, INVALID, '"append" is not known; use "path", "content", "create_dirs"'),
    refused(WRITE, {"path": "w/no", "content": "x", "mode": "a"}, INVALID, 'argument "mode" is not known'),
    refused(WRITE, {"path": "w/no", "content": "x", "create_dir_": True, "overwrite": True}, INVALID, '"overwrite" is not known',
            name("create_dir_", "create_dirs")),
    refused(WRITE, {"path": "w/no", "old_string": "x", "new_string": "y"}, INVALID, 'argument "old_string" is not known; use'),
    refused(LIST, {"path": ".", "depth": 2}, INVALID, 'did you mean "recursive"?'),
    refused(LIST, {"path": ".", "max_depth": 2}, INVALID, 'did you mean "recursive"?'),
    refused(LIST, {"path": ".", "show_hidden": True}, INVALID, 'argument "show_hidden" is not known'),
    refused(LIST, {"path": ".", "recursiv": True}, INVALID, 'did you mean "recursive"?'),
    refused(LIST, {"path": ".", "patern": "*.c"}, INVALID, 'did you mean "pattern"?'),
    refused(RUN, {"command": "true", "timeout": 30}, INVALID, 'use "command", "timeout_ms"; did you mean "timeout_ms"?'),
    refused(RUN, {"command": "true", "timeout_seconds": 30}, INVALID, 'did you mean "timeout_ms"?'),
    refused(RUN, {"command": "true", "cwd": "src"}, INVALID, 'argument "cwd" is not known; begin the command with it: '
            '{"command": "cd DIRECTORY && make"}'),
    taken(RUN, {"command": "echo hi", "description": "does nothing"}, no_effect("description"), shows="hi"),
    refused(RUN, {"command": "true", "background": True}, INVALID, 'argument "background" is not known'),
    refused(RUN, {"comand": "true"}, INVALID, 'did you mean "command"?'),
    refused(RUN, {"code": "print(1)"}, INVALID, 'did you mean "command"?'),
    refused(RUN, {"script": "echo hi"}, INVALID, 'did you mean "command"?'),
    refused(RUN, {"args": ["ls", "-l"]}, INVALID, 'argument "args" is not known; use "command"'),
    refused(SEARCH, {"text": "TODO"}, INVALID, 'did you mean "pattern"?'),
    refused(SEARCH, {"keyword": "TODO"}, INVALID, 'did you mean "pattern"?'),
    refused(SEARCH, {"pattern": "TODO", "type": "py"}, INVALID, 'did you mean "file_pattern"?'),
    refused(SEARCH, {"pattern": "TODO", "case_sensitive": False}, INVALID, 'argument "case_sensitive" is not known'),
    refused(SEARCH, {"pattern": "TODO", "max_result": 5}, INVALID, 'did you mean "max_results"?'),
    taken(SEARCH, {"pattern": "y = 2", "context": 1}, shows='"text": "x = 1", "context": true'),
    taken(SEARCH, {"pattern": "TODO", "limit": 5}, shows="src/utils.py"),
    taken(SEARCH, {"query": "TODO", "limit": "2000"}, name("query", "pattern"), number("limit", 2000), lowered("limit", 2000, 1000),
          shows="src/utils.py"),
    refused(SEARCH, {"pattern": "TODO", "limit": 0}, INVALID, '"limit" must be an integer from 1 to 1000'),
]

TYPES = [
    refused(READ, {}, INVALID, 'argument "path" is required'),
    refused(READ, {"path": None}, INVALID, 'argument "path" is required'),
    refused(READ, {"path": ""}, INVALID, 'argument "path" must not be empty'),
    refused(READ, {"path": 5}, INVALID, 'argument "path" must be a string'),
    refused(READ, {"path": ["small.py", "big.py"]}, INVALID, 'argument "path" must be a string'),
    refused(READ, {"path": {"file": "small.py"}}, INVALID, 'argument "path" must be a string'),
    refused(WRITE, {"path": "w/no"}, INVALID, 'argument "content" is required'),
    refused(WRITE, {"content": "x"}, INVALID, 'argument "path" is required'),
    refused(WRITE, {"path": "w/no", "content": {"name": "x"}}, INVALID, 'argument "content" must be a string'),
    refused(WRITE, {"path": "w/no", "content": ["a", "b"]}, INVALID, 'argument "content" must be a string'),
    refused(WRITE, {"path": "w/no", "content": 42}, INVALID, 'argument "content" must be a string'),
    refused(WRITE, {"path": "w/no", "content": None}, INVALID, 'argument "content" is required'),
    refused(RUN, {"command": ["ls", "-l"]}, INVALID, 'argument "command" must be a string'),
    refused(RUN, {"command": ""}, INVALID, 'argument "command" must not be empty'),
    refused(RUN, {}, INVALID, 'argument "command" is required'),
    refused(SEARCH, {"path": "src"}, INVALID, 'argument "pattern" is required'),
    refused(SEARCH, {"pattern": ""}, INVALID, 'argument "pattern" must not be empty'),
    refused(SEARCH, {"pattern": "TODO", "file_pattern": ["*.py", "*.c"]}, INVALID, 'argument "file_pattern" must be a string'),
    refused(SEARCH, {"pattern": "foo("}, "INVALID_PATTERN", "missing closing parenthesis"),
    refused(LIST, {}, INVALID, 'argument "path" is required'),
    taken(LIST, {"path": ".", "pattern": None}, shows="README.md"),
]

NEAR = [
    refused(READ, {"path": "big.js"}, MISSING, 'No such file or directory; did you mean "big.py"?'),
    refused(READ, {"path": "bgi.py"}, MISSING, 'did you mean "big.py"?'),
    refused(READ, {"path": "Big.py"}, MISSING, 'did you mean "big.py"?'),
    refused(READ, {"path": "big"}, MISSING, 'did you mean "big.py"?'),
    refused(READ, {"path": "./bigg.py"}, MISSING, 'did you mean "big.py"?'),
    refused(READ, {"path": "readme.md"}, MISSING, 'did you mean "README.md"?'),
    refused(READ, {"path": "README"}, MISSING, 'did you mean "README.md"?'),
    refused(READ, {"path": "config.yml"}, MISSING, 'did you mean "config.yaml"?'),
    refused(READ, {"path": "config.json"}, MISSING, 'did you mean "config.yaml"?'),
    refused(READ, {"path": "my_file.txt"}, MISSING, 'did you mean "my-file.txt"?'),
    refused(READ, {"path": "makefile"}, MISSING, 'did you mean "Makefile"?'),
    refused(READ, {"path": "src/mian.c"}, MISSING, 'did you mean "src/main.c"?'),
    refused(READ, {"path": "src/util.py"}, MISSING, 'did you mean "src/utils.py"?'),
    refused(READ, {"path": "src/index.js"}, MISSING, 'did you mean "src/index.ts"?'),
    refused(READ, {"path": "scr/main.c"}, MISSING, 'did you mean "src/main.c"?'),
    refused(READ, {"path": "Src/lib/parser.js"}, MISSING, 'did you mean "src/lib/parser.js"?'),
    refused(READ, {"path": "test/test_app.py"}, MISSING, 'did you mean "tests/test_app.py"?'),
    refused(READ, {"path": "doc/guide.md"}, MISSING, 'did you mean "docs/guide.md"?'),
    refused(READ, {"path": "ROOT/src/mian.c"}, MISSING, 'did you mean "src/main.c"?'),
    refused(READ, {"path": "NAME/src/main.c"}, MISSING, 'did you mean "src/main.c"?'),
    refused(READ, {"path": "src\\mian.c"}, MISSING, 'did you mean "src/main.c"?'),
    refused(READ, {"path": "a/ona.txt"}, MISSING, 'did you mean "a/one.txt"?'),
    refused(READ, {"path": "t/xy.py"}, MISSING, 'did you mean "t/xya.py" or "t/xyb.py"?'),
    refused(LIST, {"path": "scr"}, MISSING, 'did you mean "src"?'),
    refused(LIST, {"path": "src/libs"}, MISSING, 'did you mean "src/lib"?'),
    refused(SEARCH, {"pattern": "x", "path": "tets"}, MISSING, 'did you mean "tests"?'),
    refused(SEARCH, {"pattern": "x", "path": "src/utlis.py"}, MISSING, 'did you mean "src/utils.py"?'),
    refused(READ, {"path": "nothing-alike.bin"}, MISSING, "No such file or directory; list_directory shows what there is"),
    refused(READ, {"path": "none/none/none"}, MISSING, "list_directory shows what there is"),
    refused(READ, {"path": "scr/nothing-alike"}, MISSING, "list_directory shows what there is"),
    refused(READ, {"path": "src/../mian.c"}, MISSING, "list_directory shows what there is"),
    refused(READ, {"path": "odd/nam.txt"}, MISSING, "list_directory shows what there is"),
    refused(READ, {"path": "odd/danglin"}, MISSING, "list_directory shows what there is"),
    refused(READ, {"path": "odd/dangling"}, MISSING, "list_directory shows what there is"),
]

PLACES = [
    refused(READ, {"path": "/src/main.c"}, OUT, SEED, outside("src/main.c")),
    refused(READ, {"path": "/workspace/src/main.c"}, OUT, SEED, outside("src/main.c")),
    refused(READ, {"path": "/repo/README.md"}, OUT, SEED, outside("README.md")),
    refused(READ, {"path": "/app/package.json"}, OUT, SEED, outside("package.json")),
    refused(READ, {"path": "/home/user/NAME/src/main.c"}, OUT, SEED, outside("src/main.c")),
    refused(READ, {"path": "/mnt/data/NAME/README.md"}, OUT, SEED, outside("README.md")),
    refused(READ, {"path": "C:\\Users\\me\\NAME\\src\\main.c"}, OUT, SEED, outside("src/main.c")),
    refused(READ, {"path": "../NAME/README.md"}, OUT, SEED, outside("README.md")),
    refused(READ, {"path": "../README.md"}, OUT, SEED, outside("README.md")),
    refused(READ, {"path": "/etc/passwd"}, OUT, SEED, outside()),
    refused(READ, {"path": "../../../etc/passwd"}, OUT, SEED, outside()),
    refused(READ, {"path": "/home/user/notes.txt"}, OUT, SEED, outside()),
    refused(WRITE, {"path": "/tmp/out.txt", "content": "x"}, OUT, SEED, outside()),
    refused(WRITE, {"path": "/output.txt", "content": "x"}, OUT, SEED, outside("output.txt")),
    refused(LIST, {"path": "/"}, OUT, SEED, outside(".")),
    refused(LIST, {"path": "/workspace"}, OUT, SEED, outside(".")),
    refused(LIST, {"path": ".."}, OUT, SEED, outside(".")),
    refused(SEARCH, {"pattern": "x", "path": "/src"}, OUT, SEED, outside("src")),
    taken(READ, {"path": "ROOT/README.md"}, shows="Read me"),
    taken(LIST, {"path": "ROOT"}, shows="README.md"),
]

PATCH = "apply_patch"


def of_file(*lines, path="package.json"):
    return {"patch": "\n".join(("*** Begin Patch", f"*** Update File: {path}", *lines, "*** End Patch"))}


PATCHES = [
    taken(PATCH, {"patch": "\n*** Begin Patch\n*** Add File: p/1\n+x\n*** End Patch\n\n"}, shows='"op": "add"'),
    taken(PATCH, {"input": "*** Begin Patch\n*** Add File: p/2\n+x\n*** End Patch"}, name("input", "patch")),
    taken(PATCH, {"patch_text": "*** Begin Patch\n*** Add File: p/3\n+x\n*** End Patch"}, name("patch_text", "patch")),
    taken(PATCH, of_file("@@ all:", "+\ttrue", path="Makefile"), shows='"added": 1'),
    refused(PATCH, {"diff": "*** Begin Patch"}, INVALID, 'did you mean "patch"'),
    refused(PATCH, {"patch": ["*** Begin Patch"]}, INVALID, "must be a string"),
    refused(PATCH, {"patch": ""}, INVALID, "must not be empty"),
    refused(PATCH, {"patch": "--- a/small.py\n+++ b/small.py\n@@ -1 +1 @@\n-x = 1\n+x = 9\n"}, INVALID, "this is a unified diff"),
    refused(PATCH, {"patch": "```\n*** Begin Patch\n*** End Patch\n```"}, INVALID, "leave the fence"),
    refused(PATCH, {"patch": "apply_patch <<'EOF'\n*** Begin Patch\nEOF"}, INVALID, "leave the command apply_patch out"),
    refused(PATCH, {"patch": "*** Begin Patch\\n*** Add File: x\\n+x\\n*** End Patch"}, INVALID, "give new lines themselves"),
    refused(PATCH, {"patch": "*** Begin Patch\n*** Add File: x\nno sign\n*** End Patch"}, INVALID, "line 3 of the patch: each line"),
    refused(PATCH, {"patch": "*** Begin Patch\n*** Add File: /etc/x\n+x\n*** End Patch"}, OUT, SEED),
    refused(PATCH, {"patch": "*** Begin Patch\n*** Rename File: a\n*** End Patch"}, INVALID, "*** Move to: PATH"),
    refused(PATCH, of_file("@@ -1,1 +1,1 @@", "-{}", "+[]"), INVALID, "line numbers are not used"),
    refused(PATCH, of_file("{}", "+[]"), INVALID, "a line of the file that stays begins with a space"),
    refused(PATCH, of_file("@@", "-{}"[:-1], "+[]"), "NO_MATCH", "package.json, hunk 1: old is not in the file; the closest lines"),
    refused(PATCH, of_file("@@", "-     1\t{}", "+[]"), "NO_MATCH", "line number, which read_file adds"),
    refused(PATCH, of_file("@@", "-  {}", "+[]"), "NO_MATCH", "only in leading white space"),
    refused(PATCH, of_file("@@ function main", "-{}", "+[]"), "NO_MATCH", 'no line of the file is "function main"'),
    refused(PATCH, of_file("@@", "+[]"), "AMBIGUOUS_MATCH", "*** End of File"),
    refused(PATCH, of_file("@@", "-x", "+y", path="smal.py"), MISSING, 'did you mean "small.py"'),
    refused(PATCH, {"patch": "*** Begin Patch\n*** Add File: small.py\n+x\n*** End Patch"}, "STALE_FILE", "the file exists"),
    refused(PATCH, {"patch": "*** Begin Patch\n*** Delete File: src\n*** End Patch"}, "IS_A_DIRECTORY", "src: "),
]

MISTAKES = STRINGS + NUMBERS + NAMES + UNKNOWN + TYPES + NEAR + PLACES + PATCHES


class Place:
    """One workspace for all rows."""

    def __init__(self, daemon):
        self.client = daemon.connect()
        daemon.new_workspace(self.client)
        for path, content in FILES.items():
            self.client.use("write_file", path=path, content=content)
        self.client.run("mkdir t odd; touch t/xya.py t/xyb.py t/xyc1.py; ln -s nowhere odd/dangling; "
                        "touch \"$(printf 'odd/name\\377.txt')\" \"$(printf 'odd/nam\\n.txt')\"")
        self.root = self.client.run("pwd")["stdout"].strip()
        self.name = self.root.rpartition("/")[2]

    def real(self, value):
        """Returns the value with the workspace's own names for ROOT and NAME."""
        return json.loads(json.dumps(value).replace("ROOT", self.root).replace("NAME", self.name))


@pytest.fixture(scope="module")
def place(daemon):
    return Place(daemon)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda row: f"{row[0]}-{json.dumps(row[1])[:60]}")
def test_a_mistake(place, mistake):
    tool, arguments, code, words, notes = place.real(mistake)
    observation = place.client.observe(tool, arguments)
    assert observation["success"] == (code is None), observation
    assert observation.get("notes", []) == notes
    assert "notes" not in observation or notes
    if code is None:
        assert words in json.dumps(observation["output"])
    else:
        assert observation["error"]["code"] == code
        assert words in observation["error"]["message"]


def test_there_are_enough_of_them():
    assert len({json.dumps(row[:2]) for row in MISTAKES}) == len(MISTAKES) >= 150


def test_the_forms_of_models_apis_take_the_same(place):
    for arguments in ({"file_path": "small.py", "start_line": "2"}, '{"file_path":"small.py","start_line":"2"}'):
        observation = place.client.call("tool.call", {"tool_call": {"function": {"name": "read_file", "arguments": arguments}}})
        assert observation["notes"] == [name("file_path", "path"), number("start_line", 2)]
        assert "y = 2" in observation["output"]["content"]


def test_options_are_a_programs_and_stay_strict(place):
    for options in ({"timeout_ms": "5"}, {"timeout_ms": 10 ** 12}, {"line_numbers": "true"}, {"timeoutMs": 5}):
        error = place.client.wait(place.client.request("tool.call", {"tool": "read_file", "arguments": SMALL, "options": options}))["error"]
        assert error["code"] == -32602, options


def test_the_raw_path_of_a_program_and_a_models_alias(place):
    """The program's path replaces the model's, which came under an alias."""
    observation = place.client.observe("read_file", {"file_path": "x"}, {"path_base64": "c21hbGwucHk="})
    assert observation["success"] and observation["output"]["path"] == "small.py"


def test_the_tenants_own_maximum_is_told(start_daemon, account):
    daemon = start_daemon(config=f"[tenant t]\nusers = {account.name}\nmanaged = yes\ncommand_timeout = 7s\n"
                                 "command_timeout_max = 90s\n")
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    observation = client.observe("run_command", {"command": "echo hi", "timeout_ms": 120000})
    assert observation["notes"] == ['"timeout_ms" was lowered from 120000 to its maximum here, 90000']
    assert "notes" not in client.observe("run_command", {"command": "echo hi"})


def test_a_models_text_has_the_notes(place):
    """Notes are lines at the end of the text, after a result or an error."""
    def text(arguments):
        call = {"tool": "read_file", "arguments": arguments, "options": {"reply": "message"}}
        return place.client.call("tool.call", call)["content"].splitlines()
    text({"path": "small.py"})  # what holds in the workspace is said once
    assert text({"file_path": "small.py", "start_line": "2"})[-2:] == [f'[{name("file_path", "path")}]', f'[{number("start_line", 2)}]']
    assert text({"path": "/src/main.c"}) == [f"{OUT}: {SEED}", "[" + place.real(outside("src/main.c")) + "]"]


def test_a_thousand_names_of_a_large_directory_are_looked_at(place):
    """cloister-files compares LIMIT_NEAR_ENTRIES names, in the order of the file system."""
    place.client.run(f"mkdir {MANY}; cd {MANY}; od -An -v -tx1 -w16 -N48000 /dev/urandom | tr -d ' ' | xargs touch")
    names = place.client.run(f"ls -f {MANY}")["stdout"].split()
    assert len(names) == 3002
    near, far = ([entry for entry in part if len(entry) == 32][0] for part in (names[500:], names[1500:]))
    assert f'did you mean "{MANY}/{near}"?' in place.client.fail("read_file", path=f"{MANY}/{near[:-1]}z")["message"]
    assert "did you mean" not in place.client.fail("read_file", path=f"{MANY}/{far[:-1]}z")["message"]
