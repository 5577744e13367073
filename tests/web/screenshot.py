#!/usr/bin/env python3
"""Takes the picture of README.md: a study of grouped products on the dashboard (./dev screenshot).

Usage: screenshot.py PICTURE [DATA_DIRECTORY]

DATA_DIRECTORY: of a daemon that has tuned grouped_gemm_forward, on any machine; it is copied. Without one it is tuned here
first, which needs a GPU.
"""

import pathlib
import shutil
import sys
import tempfile

from browser import Browser, Dashboard, unusable

KERNEL = "grouped_gemm_forward"
WIDTH, HEIGHT = 1280, 1000


def study_of(farm):
    """The newest ended study of the kernel that has a best."""
    for job in farm.json("jobs", "list").get("jobs", []):
        if job["kernel_name"] != KERNEL:
            continue
        for study in farm.json("jobs", "show", job["name"].split("/")[1])["studies"]:
            if study.get("best") and study["state"] == "STUDY_STATE_ENDED":
                return study["name"]
    return None


def main():
    if unusable():
        sys.exit(f"screenshot: {unusable()}")
    picture = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="tunefarm-screenshot.") as folder:
        directory = pathlib.Path(folder) / "data"
        if len(sys.argv) > 2:
            directory.mkdir(mode=0o700)
            # The database with its log; the daemon makes new caches and sockets.
            for file in pathlib.Path(sys.argv[2]).glob("tunefarm.db*"):
                shutil.copy2(file, directory)
        with Dashboard(directory=directory) as farm, Browser() as browser:
            if len(sys.argv) == 2:
                farm.devices = []
            farm.start()
            if len(sys.argv) == 2:
                farm.cli("tune", KERNEL, "--device", "cuda", "--policy", "fast", "--max-trials", "800")
            study = study_of(farm)
            if study is None:
                sys.exit(f"screenshot: there is no ended study of {KERNEL}")
            browser.resize(WIDTH, HEIGHT)
            browser.log_in(farm.login("--role", "lookup"))
            browser.view(f"#/{study}")
            browser.wait_text(r"in the final")
            browser.wait_text(r"(?s)% alone.*1 to \d+ of ")
            browser.wait_fits()
            browser.screenshot(picture, HEIGHT)
            browser.assert_clean()
    print(f"{picture}: {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
