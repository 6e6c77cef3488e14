#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the clients have of description.json: types, errors, and a method for each tool and for each method of the
agent socket. usage: clients/generate.py [--check]; --check writes nothing, and fails if a file is not up to date."""

import json
import keyword
import pathlib
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
NOTE = "Generated from clients/description.json by clients/generate.py: do not change it here."


def camel(name):
    words = name.replace(".", "_").split("_")
    return words[0] + "".join(word.capitalize() for word in words[1:])


def error_class(code):
    return "".join(word.capitalize() for word in code.split("_"))


class Field:
    """A row of a table of fields: its type and a sentence. A "?" after the type means that the field may be missing."""

    def __init__(self, name, row):
        self.name, self.type, self.says = name, row[0].rstrip("?"), row[1] if len(row) > 1 else ""
        self.optional = row[0].endswith("?")
        self.parameter = f"{name}_" if keyword.iskeyword(name) else name  # in Python, where some names are taken


def fields(table):
    return [Field(name, row) for name, row in table.items()]


def signature_order(found):
    return sorted(found, key=lambda field: field.optional)


def natives(description):
    """The methods of the socket that become methods of a client unchanged."""
    return [(name, method) for name, method in description["methods"].items() if "by_hand" not in method]


def marked(table, mark):
    """The names of the rows with this mark: reads (it changes nothing, so it may be repeated), long (it may take
    long)."""
    return sorted(name for name, row in table.items() if row.get(mark))


def packed(head, items, tail, width=116):
    """One call or signature, with line breaks between its items only."""
    lines, indent = [head], " " * len(head)
    for i, item in enumerate(items):
        item += tail if i == len(items) - 1 else ","
        if lines[-1] not in (head, indent) and len(lines[-1]) + 1 + len(item) > width:
            lines.append(indent)
        lines[-1] += item if lines[-1] in (head, indent) else " " + item
    return lines


# Python

PYTHON = {"string": "str", "integer": "int", "boolean": "bool", "object": "Dict[str, Any]", "map": "Dict[str, str]"}


def python_type(text):
    if text.endswith("|null"):
        return f"Optional[{python_type(text[:-5])}]"
    if text.startswith("["):
        return f"List[{python_type(text[1:-1])}]"
    return PYTHON.get(text, text)


def python_fields(found):
    lines = []
    for field in found:
        lines += textwrap.wrap(field.says, 110, initial_indent="    #: ", subsequent_indent="    #: ")
        lines.append(f"    {field.name}: {python_type(field.type)}")
    return lines


def python_record(name, record):
    found = fields(record["fields"])
    required = [field for field in found if not field.optional]
    optional = [field for field in found if field.optional]
    says = f'    """{record["says"]}"""'
    lines, base = [], "TypedDict"
    if required and optional:
        base = f"_{name}"
        lines += [f"class {base}(TypedDict):", *python_fields(required), "", ""]
        required = []
    total = ", total=False" if optional else ""
    return [*lines, f"class {name}({base}{total}):", says, "", *python_fields(required or optional), "", ""]


def python_words(name, words):
    text = f"{name} = Literal[{', '.join(json.dumps(word) for word in words)}]"
    return textwrap.wrap(text, 118, subsequent_indent=" " * (len(name) + 11))


def python_types(description):
    codes = [code for code, _ in description["errors"]]
    lines = ["# SPDX-License-Identifier: Apache-2.0", f'"""{NOTE}"""', "",
             "from typing import Any, Dict, List, Literal, Optional, Type, TypedDict", "",
             "from ._errors import ServiceError", ""]
    for name, limit in description["limits"].items():
        lines.append(f"{name.upper()} = {limit['value']}  # {limit['says']}")
    lines += ["", f"READ_METHODS = frozenset({marked(description['methods'], 'reads')!r})",
              f"READ_TOOLS = frozenset({marked(description['tools'], 'reads')!r})",
              f"LONG_METHODS = frozenset({marked(description['methods'], 'long')!r})"]
    lines += ["", *packed("JSON_ERRORS = {", [f"{name!r}: {code}" for name, code in description["json_errors"].items()], "}"), "", *python_words("ErrorCode", codes)]
    for name, words in description["words"].items():
        lines += python_words(name, words)
    lines += ["", ""]
    for code, says in description["errors"]:
        lines += [f"class {error_class(code)}(ServiceError):", f'    """{says}"""', "", f'    code = "{code}"', "", ""]
    lines += ["ServiceErrors: Dict[str, Type[ServiceError]] = {",
              *(f'    "{code}": {error_class(code)},' for code in codes), "}", "", ""]
    for name, record in description["types"].items():
        lines += python_record(name, record)
    public = ["ErrorCode", *description["words"], *map(error_class, codes), *description["types"]]
    lines += packed("__all__ = [", [json.dumps(name) for name in sorted(public)], "]")
    return "\n".join(lines).rstrip() + "\n"


def python_parameter(field):
    kind = python_type(field.type)
    return f"{field.parameter}: Optional[{kind}] = None" if field.optional else f"{field.parameter}: {kind}"


def python_method(name, says, parameters, keywords, result, call, is_async):
    """The Python method; call is the method of the client that does the work, with its arguments."""
    head = ["self", *map(python_parameter, parameters), *(["*", *keywords] if keywords else [])]
    start, wait = ("async def", "await ") if is_async else ("def", "")
    lines = packed(f"{start} {name}(", head, f") -> {result}:")
    notes = [f"{field.parameter}: {field.says}" for field in parameters if field.says]
    lines += [f'    """{says}' + ("" if notes else '"""')]
    if notes:
        lines += ["", *(f"    {note}" for note in notes), '    """']
    kept = "" if result == "None" else f"result: {result} = "
    lines += [f"    {line}" for line in packed(f"{kept}{wait}{call[0]}(", call[1], ")")]
    if kept:
        lines.append("    return result")
    return ["", *(f"    {line}" if line else "" for line in lines)]


def python_members(table):
    """The items of a dict display, for packed()."""
    items = [f'"{field.name}": {field.parameter}' for field in signature_order(fields(table))] or [""]
    items[0], items[-1] = "{" + items[0], items[-1] + "}"
    if len(items) == 1:
        return ["{" + items[0].strip("{}") + "}"]
    return items


def python_class(description, is_async):
    name = "AsyncMethods" if is_async else "Methods"
    start = "async def" if is_async else "def"
    lines = [f"class {name}:", f'    """A method for each tool and each method of the agent socket{", for asyncio" if is_async else ""}."""', "",
             f"    {start} _native(self, method: str, params: Dict[str, Any]) -> Any:", "        raise NotImplementedError", "",
             f"    {start} _tool(self, tool: str, arguments: Dict[str, Any], workspace: Optional[str],",
             f"    {' ' * len(start)}       options: Optional[CallOptions]) -> Any:", "        raise NotImplementedError"]
    for tool, row in description["tools"].items():
        lines += python_method(
            tool, row["says"], signature_order(fields(row["arguments"])),
            ["workspace: Optional[str] = None", "options: Optional[CallOptions] = None"], row["output"],
            ("self._tool", [f'"{tool}"', *python_members(row["arguments"]), "workspace", "options"]), is_async)
    for method, row in natives(description):
        lines += python_method(
            method.replace(".", "_"), row["says"], signature_order(fields(row["params"])), [], row["result"] or "None",
            ("self._native", [f'"{method}"', *python_members(row["params"])]), is_async)
    return [*lines, "", ""]


def python_methods(description):
    used = sorted({row["output"] for row in description["tools"].values()} | {"CallOptions"} |
                  {row["result"] for _, row in natives(description) if row["result"]} |
                  {field.type for _, row in natives(description) for field in fields(row["params"])
                   if field.type in description["words"]})
    names = textwrap.wrap(f"from ._types import ({', '.join(used)})", 116, subsequent_indent=" " * 21)
    lines = ["# SPDX-License-Identifier: Apache-2.0", f'"""{NOTE}"""', "", "from typing import Any, Dict, List, Optional", "",
             *names, "", "", *python_class(description, False), *python_class(description, True)]
    return "\n".join(lines).rstrip() + "\n"


# TypeScript

TYPESCRIPT = {"string": "string", "integer": "number", "boolean": "boolean", "object": "Record<string, unknown>",
              "map": "Record<string, string>"}


def typescript_type(text):
    if text.endswith("|null"):
        return f"{typescript_type(text[:-5])} | null"
    if text.startswith("["):
        return f"Array<{typescript_type(text[1:-1])}>"
    return TYPESCRIPT.get(text, text)


def typescript_fields(found, indent="\t"):
    lines = []
    for field in found:
        lines += [f"{indent}/** {field.says} */"] if field.says else []
        # Undefined is left out, so it may be given as well.
        optional = "?" if field.optional else ""
        undefined = " | undefined" if field.optional else ""
        lines.append(f"{indent}{field.name}{optional}: {typescript_type(field.type)}{undefined};")
    return lines


def typescript_union(name, words):
    return [f"export type {name} =", *(f"\t| {json.dumps(word)}" for word in words[:-1]), f"\t| {json.dumps(words[-1])};", ""]


def typescript_interface(name, says, found):
    return [f"/** {says} */", f"export interface {name} {{", *typescript_fields(found), "}", ""]


def typescript_types(description):
    codes = [code for code, _ in description["errors"]]
    lines = ["// SPDX-License-Identifier: Apache-2.0", f"// {NOTE}", "", 'import { ServiceError } from "./errors.js";', ""]
    for name, limit in description["limits"].items():
        lines += [f"/** {limit['says']} */", f"export const {name.upper()} = {limit['value']};"]
    for name, marks in (("READ_METHODS", marked(description["methods"], "reads")),
                        ("READ_TOOLS", marked(description["tools"], "reads")),
                        ("LONG_METHODS", marked(description["methods"], "long"))):
        lines.append(f"export const {name}: ReadonlySet<unknown> = new Set({json.dumps(marks)});")
    lines += ["", "export const JSON_ERRORS = {", *(f"\t{name}: {code}," for name, code in description["json_errors"].items()),
              "} as const;", "", *typescript_union("ErrorCode", codes)]
    for name, words in description["words"].items():
        lines += typescript_union(name, words)
    for code, says in description["errors"]:
        lines += [f"/** {says} */", f"export class {error_class(code)} extends ServiceError {{", "}", ""]
    lines += ["/** The class of each code. */", "export const ServiceErrors: Readonly<Record<string, typeof ServiceError>> = {",
              *(f"\t{code}: {error_class(code)}," for code in codes), "};", ""]
    for name, record in description["types"].items():
        lines += typescript_interface(name, record["says"], fields(record["fields"]))
    return lines


def typescript_parameters(table):
    """The one parameter with the arguments or params; its type is written out where it is used."""
    found = fields(table)
    inner = "; ".join(f"{field.name}{'?' if field.optional else ''}: {typescript_type(field.type)}"
                      f"{' | undefined' if field.optional else ''}" for field in signature_order(found))
    return f"{{ {inner} }}" + (" = {}" if all(field.optional for field in found) else "")


def typescript_doc(says, table):
    notes = [f"@param params.{field.name} {field.says}" for field in signature_order(fields(table)) if field.says]
    return [f"\t/** {says} */"] if not notes else ["\t/**", f"\t * {says}", *(f"\t * {note}" for note in notes), "\t */"]


def typescript_methods(description):
    lines = ["/** What a tool's method takes besides the tool's arguments. */", "export interface ToolCallSettings {",
             "\t/** A workspace that is open; otherwise the one that was opened last. */", "\tworkspace?: string | undefined;",
             "\toptions?: CallOptions | undefined;", "\t/** Aborted, it cancels the call. */",
             "\tsignal?: AbortSignal | undefined;", "}", "",
             "/** A method for each tool and each method of the agent socket. */", "export abstract class Methods {",
             "\tprotected abstract native(method: string, params: object): Promise<unknown>;",
             "\tprotected abstract tool(tool: string, args: object, settings: ToolCallSettings): Promise<unknown>;"]
    for tool, row in description["tools"].items():
        lines += ["", *typescript_doc(row["says"], row["arguments"]),
                  f"\tasync {camel(tool)}(params: {typescript_parameters(row['arguments'])},",
                  f"\t\tsettings: ToolCallSettings = {{}}): Promise<{row['output']}> {{",
                  f"\t\treturn (await this.tool({json.dumps(tool)}, params, settings)) as {row['output']};", "\t}"]
    for method, row in natives(description):
        params = f"params: {typescript_parameters(row['params'])}" if row["params"] else ""
        call = f"await this.native({json.dumps(method)}, {'params' if params else '{}'})"
        lines += ["", *typescript_doc(row["says"], row["params"]),
                  f"\tasync {camel(method.replace('.', '_'))}({params}): Promise<{row['result'] or 'void'}> {{",
                  f"\t\treturn ({call}) as {row['result']};" if row["result"] else f"\t\t{call};", "\t}"]
    return [*lines, "}", ""]


def outputs(description):
    python, typescript = HERE / "python" / "src" / "cloister", HERE / "typescript" / "src"
    return {python / "_types.py": python_types(description), python / "_methods.py": python_methods(description),
            typescript / "generated.ts": "\n".join(typescript_types(description) + typescript_methods(description))}


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("usage: clients/generate.py [--check]")
    stale = []
    for path, text in outputs(json.loads((HERE / "description.json").read_text())).items():
        if not path.exists() or path.read_text() != text:
            stale.append(str(path.relative_to(HERE.parent)))
            if not check:
                path.write_text(text)
    if check and stale:
        sys.exit(f"not up to date: {', '.join(stale)}; run clients/generate.py")


if __name__ == "__main__":
    main()
