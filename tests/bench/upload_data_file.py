#!/usr/bin/env python3
"""How fast a file of 2 GiB is uploaded, and how much memory daemon and client take meanwhile.

Usage: upload_data_file.py BIN_DIRECTORY [--bytes N]

Needs the Python client on PYTHONPATH and, in TMPDIR, twice the bytes. Prints one JSON object: seconds of hashing and of
uploading by the Python client, and the highest resident set of each process beyond what it was before, in bytes.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import sys
import tempfile
import time

STEP = 16 << 20


def write(file, size):
    """Random bytes, which nothing on the way compresses; the digest of all."""
    digest = hashlib.sha256()
    with open(file, "wb") as out:
        for begin in range(0, size, STEP):
            step = os.urandom(min(STEP, size - begin))
            digest.update(step)
            out.write(step)
    return digest.hexdigest()


def peak(pid):
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--bytes", type=int, default=2 << 30)
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    os.environ.update(TUNEFARM_BIN_DIR=str(options.bin.resolve()), TUNEFARM_SOURCE_DIR=str(root))
    sys.path.insert(0, str(root / "tests" / "e2e"))
    from farm import Farm
    import tunefarm

    with tempfile.TemporaryDirectory() as folder, Farm() as farm:
        file = pathlib.Path(folder) / "data.bin"
        digest = write(file, options.bytes)
        small = pathlib.Path(folder) / "small.bin"
        write(small, 4 << 20)
        farm.start()
        with tunefarm.Client(data_directory=farm.directory, start=False) as client:
            client.upload_file(small)
            daemon_before, client_before = peak(farm.process.pid), peak(os.getpid())
            begin = time.monotonic()
            uploaded = client.upload_file(file)
            both_seconds = time.monotonic() - begin
            begin = time.monotonic()
            client.upload_file(file)  # hashed, and known
            hash_seconds = time.monotonic() - begin
        assert uploaded.digest == digest and uploaded.bytes == options.bytes, uploaded
        print(json.dumps({
            "bytes": options.bytes, "hash_seconds": round(hash_seconds, 2),
            "upload_seconds": round(both_seconds - hash_seconds, 2),
            "daemon_bytes": peak(farm.process.pid) - daemon_before, "client_bytes": peak(os.getpid()) - client_before},
            indent=1))


if __name__ == "__main__":
    main()
