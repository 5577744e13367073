#!/usr/bin/env python3
"""Checks the rules of the code base that no compiler checks: layers, banned calls, limits of files and lines.

Usage: tidy.py PROJECT_ROOT
"""

import pathlib
import re
import subprocess
import sys

import class_shape

LAYER_TABLE = "server/README.md"  # its section Layers says what each folder of server may include

# (what, pattern, who may) -- who may: path prefixes.
BANNED = [
    ("std::thread outside base/thread.h", re.compile(r"std::(jthread|thread|async)\b|pthread_create"), ["server/base/", "tests/"]),
    ("std::mutex outside base/mutex.h", re.compile(r"std::(mutex|condition_variable|shared_mutex)\b"), ["server/base/", "tests/"]),
    ("a sleep", re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep)\s*\(|[^\w.]sleep\s*\("),
     ["server/base/", "tests/fakes/", "tests/fault/", "tests/data/", "server/worker/cuda/sampler.cc",  # a device that rests
      "server/worker/cuda/energy_meter.cc"]),  # between looks at a counter that nothing announces
    ("a clock outside base/clock.h", re.compile(r"\b(system_clock|steady_clock|high_resolution_clock)\b|\bgettimeofday\b"),
     ["server/base/", "server/worker/", "tests/"]),
    ("randomness outside base/random.h", re.compile(r"\brandom_device\b|\bmt19937|[^\w]s?rand\s*\("), ["server/base/"]),
    ("sqlite3.h outside store/", re.compile(r'#include [<"]sqlite3\.h'), ["server/store/", "tests/store/", "tests/fault/"]),
    ("cuda.h or nvrtc.h outside worker/", re.compile(r'#include [<"](cuda|nvrtc|cublas\w*|nvml)\.h'), ["server/worker/", "tests/gpu/"]),
    ("grpcpp outside rpc/, the agent's remote link and client/", re.compile(r"#include <grpc"),
     ["server/rpc/", "server/agent/remote/", "server/dial/", "client/", "tests/", "server/daemon/"]),
    ("prometheus outside http/", re.compile(r'#include [<"]prometheus/'), ["server/http/"]),
    ("spdlog outside base/log.cc", re.compile(r"#include [<\"]spdlog"), ["server/base/log.cc"]),
    ("printing past Session (client/cli/session.h)",
     re.compile(r"\b(f?printf|fputs|fputc|fwrite|puts|putchar|putc)\s*\(|fmt::print|std::(cout|cerr|clog)\b"),
     ["server/", "kernels/", "tests/", "client/cpp/", "client/launch/", "client/cli/session.cc", "client/cli/studies/progress.cc"]),
    ("<ranges> or <format> or <source_location>", re.compile(r"#include <(ranges|format|source_location)>"), []),
    ("a leftover mark", re.compile(r"\b(FIXME|XXX|HACK)\b"), []),
    ("a path of one machine", re.compile(r"(?<![\w$./-])/(work|root)/"), []),
]

LINE_MAX = 120
TEST_LINE_MAX = 140  # inline definitions are easier to read unbroken
FILE_LINES_MAX = 1000  # a longer file hides a concept
FOLDER_HEADERS_MAX = 30  # of server: a larger folder hides one
BAD_NAMES = re.compile(r"(^|/|_)(utils?|helpers?|common|manager)(\.|/|_|$)", re.I)
GIVEN_NAMES = {"client/python/tunefarm/tune/utils.py"}  # scripts import it by this name


def tracked(root):
    out = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
    return [p for p in out.decode().split("\0") if p]


def read_layers(root, problems):
    """The table of layers: what each folder of server may include, None for everything. Every folder must have a row."""
    layers = {}
    for row in re.finditer(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", (root / LAYER_TABLE).read_text(encoding="utf-8"), re.M):
        folder, may = row.groups()
        layers[folder] = None if may == "everything" else {folder, *(may.split(", ") if may != "–" else [])}
    folders = {path.split("/")[1] for path in tracked(root) if re.match(r"server/\w+/.*\.(cc|h)$", path)}
    for folder in sorted(folders ^ set(layers)):
        where = "has no row in" if folder in folders else "does not exist, but has a row in"
        problems.append(f"{LAYER_TABLE}: server/{folder} {where} the table of layers")
    return layers


def check_layers(path, text, layers, problems):
    match = re.match(r"server/(\w+)/", path)
    if not match or layers.get(match.group(1)) is None:
        return
    allowed = layers[match.group(1)]
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r'\s*#include "server/([\w./]+)"', line)
        if not include:
            continue
        target = include.group(1)
        if target.split("/")[0] not in allowed and target not in allowed:
            problems.append(f'{path}:{number}: server/{match.group(1)} may not include "server/{target}" (layer table)')


def check_folders(paths, problems):
    headers = {}
    for path in paths:
        if path.startswith("server/") and path.endswith(".h"):
            folder = path.rsplit("/", 1)[0]
            headers[folder] = headers.get(folder, 0) + 1
    for folder, count in sorted(headers.items()):
        if count > FOLDER_HEADERS_MAX:
            problems.append(f"{folder}: {count} headers; look for the missing concept (at most {FOLDER_HEADERS_MAX})")


def main():
    root = pathlib.Path(sys.argv[1])
    problems = []
    layers = read_layers(root, problems)
    check_folders(tracked(root), problems)
    problems += class_shape.check({path: (root / path).read_text(encoding="utf-8") for path in tracked(root)
                                   if re.match(r"server/.*\.(cc|h)$", path) and (root / path).is_file()})
    checked = 0
    for path in tracked(root):
        if BAD_NAMES.search(path) and path not in GIVEN_NAMES:
            problems.append(f"{path}: a name that says nothing (utils, helpers, common, manager)")
        if not path.endswith((".cc", ".h", ".cu", ".cuh", ".py", ".proto", ".sh", ".cmake", ".md", ".pbtxt", ".inc", ".sql", ".toml", "CMakeLists.txt")):
            continue
        file = root / path
        if not file.is_file():
            continue
        text = file.read_text(encoding="utf-8")
        checked += 1
        if path.startswith("tests/tidy/"):
            continue
        lines = text.splitlines()
        code = path.endswith((".cc", ".h", ".cu", ".cuh"))
        if code and len(lines) > FILE_LINES_MAX:
            problems.append(f"{path}: {len(lines)} lines; look for the missing concept (at most {FILE_LINES_MAX})")
        if path.endswith(".h") and "#pragma once" not in text:
            problems.append(f"{path}: no #pragma once")
        for number, line in enumerate(lines, 1):
            line_max = TEST_LINE_MAX if path.startswith("tests/") else LINE_MAX
            if code and len(line) > line_max:
                problems.append(f"{path}:{number}: {len(line)} columns (at most {line_max})")
            if line.rstrip() != line and not path.endswith(".md"):
                problems.append(f"{path}:{number}: trailing white space")
            stripped = line.split("//")[0] if code else line
            for what, pattern, allowed in BANNED:
                if what.startswith("a path") or what.startswith("a leftover"):
                    subject = line
                elif code:
                    subject = stripped
                else:
                    continue
                if pattern.search(subject) and not any(path.startswith(prefix) for prefix in allowed):
                    problems.append(f"{path}:{number}: {what}")
        if code:
            check_layers(path, text, layers, problems)
    if checked < 50:
        problems.append(f"only {checked} files were checked: is {root} the project?")
    for problem in problems:
        print(problem)
    print(f"tidy: {checked} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
