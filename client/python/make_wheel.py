#!/usr/bin/env python3
"""make_wheel.py PACKAGE DIRECTORY: packs the assembled package (a folder tunefarm with the stubs that protoc generated)
as a wheel, which pip installs without network and without tools for building. Prints its path.

What pyproject.toml says of the project is written into it. Equal inputs make equal files.
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold


def _metadata(version):
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")

    def one(pattern):
        return re.search(pattern, project, re.MULTILINE).group(1)

    def quoted(text):
        return re.findall(r'"([^"]*)"', text)

    lines = ["Metadata-Version: 2.1", "Name: tunefarm", f"Version: {version}",
             f"Summary: {one(r'^description = .(.*).$')}", f"License: {one(r'^license = .text = .(.*).}$')}",
             f"Requires-Python: {one(r'^requires-python = .(.*).$')}"]
    lines += [f"Requires-Dist: {name}" for name in quoted(one(r"^dependencies = \[(.*)\]$"))]
    extras = project.split("[project.optional-dependencies]", 1)[1].split("\n\n", 1)[0]
    for extra, names in re.findall(r"^(\w+) = \[(.*)\]$", extras, re.MULTILINE):
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {name}; extra == "{extra}"' for name in quoted(names)]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", (HERE / "README.md").read_text("utf-8")])


def make_wheel(package, directory):
    """Returns the wheel's path. An older one of the same version is replaced."""
    package, directory = pathlib.Path(package), pathlib.Path(directory)
    if not list(package.glob("v1/*_pb2.py")):
        raise SystemExit(f"make_wheel.py: {package} has no stubs; build the target tunefarm_python first")
    version = re.search(r'^__version__ = "(.*)"$', (package / "__init__.py").read_text("utf-8"), re.MULTILINE).group(1)
    info = f"tunefarm-{version}.dist-info"
    files = {f"tunefarm/{file.relative_to(package).as_posix()}": file.read_bytes() for file in sorted(package.rglob("*"))
             if file.suffix in (".py", ".pyi", ".typed")}
    files[f"{info}/METADATA"] = _metadata(version).encode("utf-8")
    files[f"{info}/LICENSE"] = (HERE.parents[1] / "LICENSE").read_bytes()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tunefarm\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}")
    files[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]) + "\n").encode("utf-8")
    directory.mkdir(parents=True, exist_ok=True)
    wheel = directory / f"tunefarm-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return wheel


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print(make_wheel(sys.argv[1], sys.argv[2]))
