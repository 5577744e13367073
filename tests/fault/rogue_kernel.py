"""Kernels for one test: `y[i] = 2 * x[i]` for the CPU, whose parameter FAULT chooses one of the test's faults."""

import pathlib
import shutil
import tempfile

DEFINITION = """
display_name: "{name}"
language: LANGUAGE_HOST_CXX
sources {{ path: "rogue.cc" }}
compile_options: ["-O1"]
dims {{ name: "N" default_value {{ int_value: 4096 }} min: 4 max: 1048576 }}
parameters {{ name: "FAULT" values {{ strings: [{faults}] }} }}
arguments {{ name: "x" buffer {{ data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN fill {{ normal {{}} }} }} }}
arguments {{ name: "y" buffer {{ data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }} }}
arguments {{ name: "n" scalar {{ data_type: DATA_TYPE_I64 value: "N" }} }}
launches {{ kernel {{ entry: "rogue" arguments: ["x", "y", "n"] }} }}
reference {{ steps {{ kernel {{ entry: "rogue_reference" arguments: ["x", "y", "n"] }} }} }}
tolerance {{ atol: 0 rtol: 0 }}
"""

SOURCE = """
{before}
extern "C" void rogue(const float* x, float* y, long n) {{
{faults}
  for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
}}
extern "C" void rogue_reference(const float* x, float* y, long n) {{
  for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
}}
"""


class RogueKernel:
    """`with RogueKernel(name, faults, before) as folder:` `faults`: code of the entry by name of the fault; `none`, the
    default config, is added. `before`: text before the entry."""

    def __init__(self, name, faults, before=""):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-kernel."))
        names = ["none", *faults]
        code = "\n".join(f"#ifdef FAULT_{fault}\n{text}\n#endif" for fault, text in faults.items())
        (self.folder / "kernel.pbtxt").write_text(
            DEFINITION.format(name=name, faults=", ".join(f'"{fault}"' for fault in names)))
        (self.folder / "rogue.cc").write_text(SOURCE.format(before=before, faults=code))

    def __enter__(self):
        return self.folder

    def __exit__(self, kind, value, traceback):
        shutil.rmtree(self.folder)
