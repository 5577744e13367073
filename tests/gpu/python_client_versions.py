#!/usr/bin/env python3
"""The Python client's tests with the grpcio and protobuf of another machine: versions first, then a line for each test.

    ./dev bundle && cmake --build build/release --target tunefarm_python     # where tunefarm is built
    python3 tests/gpu/python_client_versions.py                               # on the other machine, with those two folders

The machine needs this source tree, build/bundle (programs) and build/release/python (the client and its stubs, which
protoc 3.21 has generated), and a Python with grpcio, protobuf and numpy. Ends with 0 if every test has passed; what
was skipped is said and counted. No GPU is used.
"""

import argparse
import importlib
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# Each is a file of its own process; those of e2e start daemons.
FILES = ("package_test.py", "connection_test.py", "display_test.py", "progress_test.py", "plot_test.py",
         "grouped_gemm_test.py", "tune_script_test.py", "python_worker_caches_test.py", "python_worker_frames_test.py",
         "python_worker_judgement_test.py", "python_worker_process_test.py", "python_worker_remove_tree_test.py",
         "python_worker_times_test.py", "client_test.py", "broken_connection_test.py", "examples_test.py")
# As unittest -v prints them: "test_name (module.Class.test_name) ... ok", with warnings possibly in between.
LINE = re.compile(r"^(test_\w+) \(([\w.]+)\).*?\.\.\. (?:.*\n)*?.*?(ok|FAIL|ERROR|skipped '.*'|expected failure)$", re.MULTILINE)


def version(module):
    """Of what is imported here, wherever it is installed."""
    try:
        return importlib.import_module(module).__version__
    except ImportError:
        return "none"


def print_versions(options):
    print(f"python {platform.python_version()} ({sys.executable})")
    for module in ("grpc", "google.protobuf", "numpy", "pandas", "tqdm", "matplotlib"):
        print(f"{module} {version(module)}")
    if "none" in (version("grpc"), version("google.protobuf")):
        sys.exit(f"{sys.executable} needs grpcio and protobuf")
    print(f"protobuf's implementation: {importlib.import_module('google.protobuf.internal.api_implementation').Type()}")
    done = subprocess.run([options.bin / "tunefarmd", "--version"], capture_output=True, text=True)
    print(done.stdout.strip() or f"tunefarmd does not run here: {done.stderr.strip()}")
    return done.returncode == 0


def run(file, options):
    """Names and results of a file's tests; what went wrong is printed."""
    environment = dict(os.environ, TUNEFARM_BIN_DIR=str(options.bin), TUNEFARM_SOURCE_DIR=str(SOURCE),
                       PYTHONPATH=os.pathsep.join([str(options.client), *filter(None, [os.environ.get("PYTHONPATH")])]),
                       PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="default")
    path = SOURCE / "tests" / "python" / file
    with subprocess.Popen([sys.executable, "-X", "faulthandler", path, "-v"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=environment, stdin=subprocess.DEVNULL) as process:
        try:
            output, errors = process.communicate(timeout=options.seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # it says where it stands
            output, errors = process.communicate()
    done = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    results = [(f"{file.removesuffix('.py')}.{name}", result) for name, _, result in LINE.findall(done.stderr)]
    ran = re.search(r"^Ran (\d+) test", done.stderr, re.MULTILINE)
    if ran is None or int(ran.group(1)) != len(results):
        results.append((file, f"ERROR (of {ran.group(1) if ran else 'all'} tests {len(results)} have said how they ended)"))
    elif done.returncode != 0 and all(result == "ok" for _, result in results):
        results.append((file, f"ERROR (ended with {done.returncode})"))
    for warning in sorted(set(re.findall(r"^.*(?:Deprecation|User|Future)Warning: .*$", done.stderr, re.MULTILINE))):
        print(f"  warning: {warning}")
    if any(result.startswith(("FAIL", "ERROR")) for _, result in results):
        print(done.stdout[-4000:], done.stderr[-8000:], sep="\n")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/bundle/bin", help="folder of tunefarmd")
    parser.add_argument("--client", type=pathlib.Path, default=SOURCE / "build/release/python", help="folder of the package")
    parser.add_argument("--seconds", type=float, default=300, help="of each file; then it is ended, and says where it stood")
    options = parser.parse_args()
    options.bin, options.client = options.bin.resolve(), options.client.resolve()
    for path in (options.bin / "tunefarmd", options.client / "tunefarm" / "v1"):
        if not path.exists():
            sys.exit(f"{path} is missing; bring it along (see --help)")
    if not print_versions(options):
        return 1
    results = []
    for file in FILES:
        for name, result in run(file, options):
            print(f"{name} {result}", flush=True)
            results.append(result)
    failed = sum(result.startswith(("FAIL", "ERROR")) for result in results)
    skipped = sum(result.startswith("skipped") for result in results)
    print(f"{len(results) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
