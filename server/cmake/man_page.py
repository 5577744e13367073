#!/usr/bin/env python3
"""man_page.py PROGRAM SECTION FILE: writes a manual page from the help texts of PROGRAM and of its commands. A FILE that
ends in .gz is compressed. Equal help texts make equal files, dated by SOURCE_DATE_EPOCH where that is set.
"""

import gzip
import os
import pathlib
import re
import subprocess
import sys
import time

SECONDS_MAX = 60  # of one help text: a hang
DEPTH_MAX = 4  # of commands below commands
VERBATIM = {"Example", "Examples"}  # paragraphs whose line breaks count


def output(program, *words):
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX,
                          env={"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"})
    if done.returncode != 0:
        raise SystemExit(f"man_page.py: {' '.join([program, *words])} ends with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def escaped(text):
    """Text as roff reads it: a hyphen stays ASCII's, and no line becomes a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha").replace("'", "\\(aq")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in text.split("\n"))


def paragraphs(text):
    """(heading or "", its lines) of each part of a help text: a line that ends in a colon begins one."""
    parts = [("", [])]
    for line in text.rstrip().split("\n"):
        heading = re.fullmatch(r"([A-Z][\w ]*):", line)
        if heading:
            parts.append((heading.group(1), []))
        elif line.startswith("Usage: "):
            parts.append(("Usage", [line[len("Usage: "):]]))
        elif line and not line.startswith(" ") and parts[-1][0]:
            parts.append(("", [line]))  # text after a list
        else:
            parts[-1][1].append(line)
    return [(heading, lines) for heading, lines in parts if any(line.strip() for line in lines)]


def entries(lines):
    """(term, meaning) of each line of a list, whose meaning may go on in deeper lines."""
    found = []
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        if indent > 4 and found:
            found[-1][1].append(line.strip())
        else:
            term, _, meaning = line.strip().partition("  ")
            found.append((term, [meaning.strip()] if meaning.strip() else []))
    return [(term, " ".join(meaning)) for term, meaning in found]


def verbatim(lines):
    while lines and not lines[0].strip():
        lines = lines[1:]
    return [".nf", escaped("\n".join(lines).rstrip()), ".fi"]


def listed(lines):
    roff = []
    for term, meaning in entries(lines):
        roff += [".TP", ".B " + escaped(term).replace('"', "\\(dq"), escaped(meaning) or "\\&"]
    return roff


def body(text, name, level):
    """The roff of a help text below .SH or .SS, but for its usage, and the commands that it lists."""
    roff, commands = [], []
    for heading, lines in paragraphs(text):
        if heading == "Usage":
            roff += [".PP", ".B " + escaped(lines[0])] if level == ".SS" else []
        elif not heading:
            # Blank lines part paragraphs.
            for block in "\n".join(lines).strip().split("\n\n"):
                roff += [".PP", escaped(" ".join(line.strip() for line in block.split("\n")))]
        else:
            roff += [f".SH {heading.upper()}"] if level == ".SH" else [".PP", f".I {heading}:"]
            roff += verbatim(lines) if heading in VERBATIM else listed(lines)
            if heading == "Commands":
                commands = [term.split()[0] for term, _ in entries(lines)]
    return roff, [[*name, command] for command in commands]


def page(program, section):
    name = pathlib.Path(program).name
    text = output(program, "--help")
    version = output(program, "--version").split()[1]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    about = re.sub(rf"^{re.escape(name)} ", "", re.split(r"[.:]", paragraphs(text)[0][1][0])[0].strip())
    usage = [lines[0] for heading, lines in paragraphs(text) if heading == "Usage"]
    roff = [f".TH {name.upper()} {section} {time.strftime('%Y-%m-%d', time.gmtime(seconds))} \"{name} {version}\"",
            ".SH NAME", f"{name} \\- {escaped(about)}", ".SH SYNOPSIS", *(f".B {escaped(line)}" for line in usage),
            ".SH DESCRIPTION"]
    own, waiting = body(text, [], ".SH")
    roff += own
    if waiting:
        roff += [".SH EACH COMMAND"]
    while waiting:
        words = waiting.pop(0)
        if words == ["help"]:
            continue
        help_text = output(program, *words, "--help")
        lines, below = body(help_text, words, ".SS")
        roff += [".SS " + escaped(" ".join([name, *words])), *lines]
        waiting = (below if len(words) < DEPTH_MAX else []) + waiting
    # The subjects of `help SUBJECT` that the first page names at its end.
    for subject in re.findall(rf"{re.escape(name)} help ([a-z-]+)", text.rstrip().rsplit("\n", 1)[-1]):
        roff += [f".SH {subject.replace('-', ' ').upper()}", *verbatim(output(program, "help", subject).split("\n"))]
    return "\n".join(roff) + "\n"


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    program, section, file = sys.argv[1:]
    data = page(program, section).encode("utf-8")
    pathlib.Path(file).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(file).write_bytes(gzip.compress(data, 9, mtime=0) if file.endswith(".gz") else data)


if __name__ == "__main__":
    main()
