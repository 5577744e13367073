#!/usr/bin/env python3
"""Lints the .proto files by buf's STANDARD and COMMENTS rules, as far as they matter here, without needing buf.

Usage: proto_lint.py PROTO_ROOT
"""

import pathlib
import re
import sys


def lint(root, path, problems):
    text = path.read_text(encoding="utf-8")
    relative = path.relative_to(root)
    package = re.search(r"^package ([\w.]+);", text, re.M)

    def problem(number, what):
        problems.append(f"{relative}:{number}: {what}")

    if not package or package.group(1).replace(".", "/") != str(relative.parent):
        problem(1, "the package must mirror the folder")
    if not re.search(r"\.v\d+$", package.group(1) if package else ""):
        problem(1, "the package must end in a version")
    if not re.fullmatch(r"[a-z][a-z0-9_]*\.proto", path.name):
        problem(1, "file names are snake_case")
    if 'syntax = "proto3";' not in text:
        problem(1, "not proto3")

    stack = []  # (kind, name)
    previous_is_comment = False
    previous_is_member = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if len(raw) > 120:
            problem(number, "more than 120 columns")
        if line.startswith("//"):
            previous_is_comment = True
            continue
        commented = previous_is_comment or previous_is_member
        opened = re.match(r"(message|enum|service|oneof) (\w+) \{(\})?", line)
        rpc = re.match(r"rpc (\w+)\((?:stream )?(\w+)\) returns \((stream )?(\w+)\)", line)
        field = re.match(r"(?:repeated |optional )?(map<[\w., ]+>|[\w.]+) (\w+) = (\d+)", line)
        if opened:
            kind, name = opened.group(1), opened.group(2)
            if kind != "oneof" and not previous_is_comment:
                problem(number, f"{kind} {name} has no comment")
            if kind in ("message", "enum", "service") and not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
                problem(number, f"{kind} {name} is not CamelCase")
            if kind == "service" and not name.endswith("Service"):
                problem(number, f"service {name} does not end in Service")
            if not opened.group(3):
                stack.append((kind, name))
        elif rpc:
            name = rpc.group(1)
            if not previous_is_comment:
                problem(number, f"rpc {name} has no comment")
            if rpc.group(2) != name + "Request" or rpc.group(4) != name + "Response":
                problem(number, f"rpc {name} must take {name}Request and return {name}Response")
            if line.endswith("{"):
                stack.append(("rpc", name))
        elif stack and stack[-1][0] == "enum" and (value := re.match(r"(\w+) = (\d+);", line)):
            prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", stack[-1][1]).upper() + "_"
            if not value.group(1).startswith(prefix):
                problem(number, f"{value.group(1)} does not start with {prefix}")
            if value.group(2) == "0" and not value.group(1).endswith("_UNSPECIFIED"):
                problem(number, "the zero value must be _UNSPECIFIED")
            if not commented:
                problem(number, f"{value.group(1)} has no comment")
            previous_is_comment, previous_is_member = False, True
            continue
        elif field and stack and stack[-1][0] in ("message", "oneof"):
            if not re.fullmatch(r"[a-z][a-z0-9_]*", field.group(2)):
                problem(number, f"field {field.group(2)} is not snake_case")
            if not commented and stack[-1][0] != "oneof":
                problem(number, f"field {field.group(2)} has no comment")
            previous_is_comment, previous_is_member = False, True
            continue
        elif line == "}" and stack:
            stack.pop()
        # A comment covers the run of members below it, which ends at anything else.
        previous_is_comment = previous_is_member = False


def main():
    root = pathlib.Path(sys.argv[1])
    problems = []
    files = sorted(root.rglob("*.proto"))
    for path in files:
        lint(root, path, problems)
    names = {}
    for path in files:
        for match in re.finditer(r"^(?:message|enum|service) (\w+)", path.read_text(), re.M):
            key = (path.parent, match.group(1))
            if key in names:
                problems.append(f"{path.relative_to(root)}: {match.group(1)} is also in {names[key].name}")
            names[key] = path
    for problem in problems:
        print(problem)
    print(f"proto_lint: {len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
