"""Reads kernels/grouped_gemm/*.pbtxt as far as a bring-up needs it: its expressions are Python's, too."""

import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "client", "python"))
from tunefarm._assembled_text import AssembledText  # noqa: E402  (needs neither protobuf nor a build)

FOLDER = os.path.join(ROOT, "kernels", "grouped_gemm")
SOURCES = {op: op + ".cu" for op in ("forward", "dx", "dw", "forward_fp8", "gate_up", "gate_up_fp8")}
ONLY_PORTABLE = {"path": "hopper", "warps_m": 1, "min_blocks": 1}


class Limits:
    """What the constraints ask of a device: an H100 or H200."""
    compute_capability = 90
    sm_count = 132
    registers_per_sm = 65536
    reserved_shared_bytes_per_block = 1024
    shared_bytes_per_sm = 233472
    shared_bytes_per_block_optin = 232448


class OneBlock:
    max_active_blocks = 1


def text_of(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def headers():
    return {name: text_of(name) for name in os.listdir(FOLDER) if name.endswith(".cuh")}


def source(op):
    return text_of(SOURCES[op])


class Definition:
    def __init__(self, op):
        name = "grouped_gemm_%s.pbtxt" % op
        assembled = AssembledText(text_of(name), name, text_of)
        if assembled.errors:
            raise SystemExit("\n".join(assembled.errors))
        text = re.sub(r"^\s*#.*$", "", assembled.text, flags=re.M)
        self.op = op
        launches = re.findall(r"^launches \{.*?^\}", text, flags=re.M | re.S)
        self.launch_text, = [launch for launch in launches if "when: \"path == 'portable'\"" not in launch]
        self.parameters = {}
        for name, kind, values in re.findall(r'parameters \{\s*name: "(\w+)" values \{ (\w+): \[(.*?)\] \}', text):
            read = {"ints": int, "bools": lambda v: v == "true", "strings": lambda v: v.strip('"')}[kind]
            self.parameters[name] = [read(value.strip()) for value in values.split(",")]
        self.derived = re.findall(r'derived \{ name: "(\w+)" expression: "(.*?)" \}', text)
        self.constraints = re.findall(r'constraints \{\s*expression: "(.*?)"\s*reason: "(.*?)"', text)
        self.maps = {}
        for name, buffer, body in re.findall(r'arguments \{\s*name: "(\w+)"\s*tensor_map \{\s*buffer: "(\w+)"(.*?)\}\s*\}', text, flags=re.S):
            lists = {key: re.findall(r'"(.*?)"', value) for key, value in re.findall(r"(\w+): \[(.*?)\]", body)}
            swizzle = re.search(r'swizzle: "(.*?)" l2', body).group(1)
            self.maps[name] = (buffer, lists["dims"], lists["byte_strides"], lists["box"], swizzle)

    def environment(self, problem, config):
        values = dict(ceil_div=lambda a, b: -(-a // b), is_pow2=lambda x: x > 0 and x & (x - 1) == 0, device=Limits, kernel=OneBlock)
        values.update(problem)
        values.update({name: choices[0] for name, choices in self.parameters.items()})
        values.update(ONLY_PORTABLE, GROUP_SIZE_M=8, persistent=1, epilogue_columns=64, use_tma_load_w=True)
        values.update(config)
        for name, expression in self.derived:
            values[name] = eval(expression, values)
        return values

    def broken(self, values, slow=False):
        """The reason of the first constraint that does not hold, or None. With `slow` rules that only keep slow configs out
        of the search do not count: such configs must be right, too."""
        for expression, reason in self.constraints:
            if not eval(expression, values) and not (slow and re.search("wastes? bandwidth", reason)):
                return reason
        return None

    def launch(self, values):
        read = lambda key: eval(re.search(key + r': "(.*?)"', self.launch_text).group(1), values)
        names = re.findall(r"arguments: \[(.*?)\]", self.launch_text)
        return dict(grid=read("grid"), block=read("block"), cluster=read("cluster"), shared=read("dynamic_shared_bytes"),
                    arguments=re.findall(r'"(\w+)"', ", ".join(names)))

    def macros(self, values, dtype):
        macros = {"dtype_" + dtype: 1}
        for name in list(self.parameters) + ["permute_x", "permute_y", "fuse_mul_post", "gate_up"]:
            value = values.get(name)
            if value is None or name == "GROUP_SIZE_M":
                continue
            if isinstance(value, str):
                macros[name] = value
                macros["%s_%s" % (name, value)] = 1
            else:
                macros[name] = int(value)
        return macros

    def draw(self, problem, random):
        """A random valid config of the Hopper path."""
        while True:
            config = {name: random.choice(choices) for name, choices in self.parameters.items()}
            config.update(ONLY_PORTABLE)
            try:
                values = self.environment(problem, config)
                if self.broken(values) is None:
                    return config
            except ZeroDivisionError:
                continue
