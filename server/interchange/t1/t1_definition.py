"""A kernel definition that does what a T1 file says, in the JSON form of tunefarm.v1.Kernel.

- Where the file brings no usable reference, the kernel's own output under the default config is one.
- What needs the engine of spaces is left to the program that runs this: which conditions its expression language reads
  as they are, which compiler options are allowed, and a default config where the declared one breaks a condition.
"""

import base64
import math
import re

from json_text import Refused, fits, shown
from python_writer import ATOM, Names, Writer, Written
from t1_file import AXES, Text
from t1_sources import Collector, Folder

TOLERANCE_DEFAULT = 1e-4
ELEMENT_INDEX = "tunefarm_i"
LIST_FIELDS = {bool: "bools", int: "ints", float: "doubles", str: "strings"}
VALUE_FIELDS = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
CXX_TYPES = {
    "I8": "signed char", "U8": "unsigned char", "I16": "short", "U16": "unsigned short", "I32": "int", "U32": "unsigned int",
    "I64": "long long", "U64": "unsigned long long", "F32": "float", "F64": "double",
}  # fmt: skip
CUDA_FUNCTION = """
extern "C" __global__ void {entry}({type}* tunefarm_data, long long tunefarm_n) {{
  for (long long tunefarm_k = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; tunefarm_k < tunefarm_n;
       tunefarm_k += static_cast<long long>(gridDim.x) * blockDim.x) {{
    const double {index} = static_cast<double>(tunefarm_k);
    (void){index};
    tunefarm_data[tunefarm_k] = static_cast<{type}>({value});
  }}
}}
"""
HOST_FUNCTION = """
extern "C" void {entry}({type}* tunefarm_data, long long tunefarm_n) {{
  for (long long tunefarm_k = 0; tunefarm_k < tunefarm_n; ++tunefarm_k) {{
    const double {index} = static_cast<double>(tunefarm_k);
    (void){index};
    tunefarm_data[tunefarm_k] = static_cast<{type}>({value});
  }}
}}
"""


def display_name(text):
    name = "".join(c.lower() if c.isascii() and c.isalnum() else "_" for c in text)
    return ("" if name[:1].isalpha() else "kernel_") + name


def number_text(value):
    return repr(value)[:-2] if repr(value).endswith(".0") else repr(value)


def integer_range(type_):
    bits = int(type_[1:])
    return (0, (1 << bits) - 1) if type_[0] == "U" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


class Maker:
    """Used once, by answer(). `options` are those of `tunefarm import t1`; each may be missing."""

    def __init__(self, t1, options):
        self.t1, self.options = t1, options
        self.is_cuda = self.language() == "LANGUAGE_CUDA"
        self.kernel = {"language": self.language(), "dims": [], "derived": [], "arguments": [], "prepare": [], "constraints": []}
        self.notes = list(t1.notes)
        self.translated = []  # of each condition: what it is in the expression language, or why it has no counterpart
        self.places = {}  # field of the definition to the place in the file that it comes from
        self.parameters = {p.name: p for p in t1.parameters}
        self.variables = {p.name: Written(p.name, ATOM, p.type) for p in t1.parameters}
        self.problem = []  # what ProblemSize[i] is written as
        self.problem_values = []  # its value, None where it depends on parameters
        self.grid, self.block = [], []  # three each
        self.passed = []  # arguments in the order of the call
        self.functions = []  # of the generated source
        self.counts = set()  # scalars with a vector's length that exist
        self.targets = set()  # vectors with expected values from the file
        self.lengths = {}
        self.has_output = False

    def answer(self):
        self.set_names()
        self.add_problem()
        self.add_parameters()
        self.add_conditions()
        self.add_launch_formulas()
        self.plan_reference()
        self.add_arguments()
        self.place("launches[0]", self.t1.kernel_node)
        self.kernel["launches"] = [{"kernel": self.launch()}]
        self.add_reference()
        self.add_sources()
        return {
            "kernel": self.kernel,
            "notes": self.notes,
            "budget": self.t1.budget,
            "translated": self.translated,
            "compile_options": [{"text": node.value, "pointer": node.pointer()} for node in self.t1.compile_options],
            "places": self.places,
        }

    def note(self, text):
        self.notes.append(text)

    def place(self, field, node):
        self.places[field] = f"{node.place()}: {shown(node.pointer(), 200)}"

    def place_last(self, field, node):
        self.place(f"{field}[{len(self.kernel[field]) - 1}]", node)

    def language(self):
        if self.options.get("language"):
            return {"cuda": "LANGUAGE_CUDA", "host": "LANGUAGE_HOST_CXX"}[self.options["language"]]
        if self.t1.language.value != "CUDA":
            raise self.t1.language.error(
                f"kernels in {self.t1.language.value} cannot be imported, only CUDA kernels (or host C++, with "
                "--language host)"
            )
        return "LANGUAGE_CUDA"

    def set_names(self):
        from_file = self.t1.benchmark_name or self.t1.kernel_name
        self.kernel["display_name"] = display_name(self.options.get("name") or from_file)[:50]
        self.kernel["description"] = f"{from_file[:200]}, imported from a T1 file, the kernel definition of Kernel Tuner and KTT."

    # ---- Space ----

    def add_problem(self):
        """A size becomes a dim of one value: the sizes in the file and in its source belong together."""
        for i, size in enumerate(self.t1.problem_size):
            if not re.fullmatch(r"-?[0-9]{1,19}", size.text) or not fits(int(size.text)):
                written = self.written(size)
                self.problem.append(Written(f"({written.text})", ATOM, written.type))
                self.problem_values.append(None)
                continue
            value = int(size.text)
            if value < 1:
                raise size.node.error(f"{value} is not at least 1")
            name = "problem_size_" + "xyz"[i]
            while name in self.parameters:
                name = "t1_" + name
            dim = {"name": name, "default_value": {"int_value": value}, "min": value, "max": value}
            self.kernel["dims"].append({**dim, "description": f"ProblemSize[{i}]."})
            self.place_last("dims", size.node)
            self.problem.append(Written(name, ATOM, int))
            self.problem_values.append(value)

    def written(self, text):
        """Python text over parameters and the problem, in the expression language."""
        names = Names(self.variables, elements={"ProblemSize": self.problem})
        return text.parsed(lambda parsed: Writer(parsed, names).write())

    def written_int(self, text):
        """The same for a count: what divides with "/" is cut to an int, as the other tools do."""
        written = self.written(text)
        return written.text if written.type is int else f"int({written.text})"

    def add_parameters(self):
        self.kernel["parameters"] = []
        for p in self.t1.parameters:
            default = p.values[0] if p.default is None else p.default
            values, default = {LIST_FIELDS[p.type]: p.values}, {VALUE_FIELDS[p.type]: default}
            self.kernel["parameters"].append({"name": p.name, "values": values, "default_value": default})
            self.place_last("parameters", p.node)

    def add_conditions(self):
        names = Names(self.variables)
        for condition in self.t1.conditions:
            self.kernel["constraints"].append({"expression": condition.text})
            self.place_last("constraints", condition.node)
            try:
                self.translated.append({"text": condition.parsed(lambda parsed: Writer(parsed, names).write().text)})
            except Refused as error:
                self.translated.append({"error": f"{error.place}: {error.path}: {error.message}"})
        # Kernel Tuner's silent rule.
        product = " * ".join(p for p in self.parameters if p in ("block_size_x", "block_size_y", "block_size_z"))
        limit = self.options.get("thread_limit")
        if limit and product:
            reason = "threads per block, as Kernel Tuner limits them"
            self.kernel["constraints"].append({"expression": f"{product} <= {limit}", "reason": reason})

    # ---- Launch ----

    def add_macro(self, name, expression, node=None):
        if name not in self.parameters:
            self.kernel["derived"].append({"name": name, "expression": expression, "bind": "BIND_COMPILE"})
            if node:
                self.place_last("derived", node)

    def add_launch_formulas(self):
        t1 = self.t1
        if not t1.is_kernel_tuner:
            for axis in range(3):
                block = self.written_int(t1.local_size[axis]) if t1.local_size[axis] else "1"
                grid = self.written_int(t1.global_size[axis]) if t1.global_size[axis] else "1"
                if t1.global_size[axis] and t1.global_size_type == "threads":
                    grid = f"({grid}) // ({block})"
                self.block.append(block)
                self.grid.append(grid)
            return
        if t1.global_size[0]:
            self.note("ProblemSize and GridDiv decide the launch; GlobalSize and LocalSize are not read.")
        self.block = ["block_size_x", "block_size_y", "block_size_z"]
        for name, size in zip(self.block, ("256", "1", "1")):
            self.add_macro(name, size)
        for axis in range(3):
            grid = self.kernel_tuner_grid(axis)
            name = "grid_size_" + "xyz"[axis]
            self.add_macro(name, grid, t1.kernel_node.find("GridDiv" + AXES[axis]))
            self.grid.append(grid if name in self.parameters else name)
        self.add_macro("kernel_tuner", "1")

    def kernel_tuner_grid(self, axis):
        if axis >= len(self.problem):
            return "1"
        factors = [self.written_int(factor) for factor in self.t1.grid_div[axis]]
        divisor = " * ".join(text if re.fullmatch(r"\w+", text) else f"({text})" for text in factors)
        # Without GridDiv an axis is divided by its block size, where that is a parameter.
        if not divisor and self.block[axis] in self.parameters:
            divisor = self.block[axis]
        size = self.problem[axis].text
        return f"ceil_div({size}, {divisor})" if divisor else size

    def launch(self):
        launch = {"entry": self.t1.kernel_name, "arguments": list(self.passed)}
        if self.is_cuda:
            launch.update(grid=self.grid, block=self.block)
            if self.t1.shared_memory:
                launch["dynamic_shared_bytes"] = str(self.t1.shared_memory)
        return launch

    # ---- Arguments ----

    def length(self, argument):
        """Elements of a vector: an expression over the problem. Parameters in it mean the lists of their values."""
        lists = {p.name: p.values for p in self.t1.parameters}
        singles = {name: values[0] if len(values) == 1 else values for name, values in lists.items()}
        try:
            written, constants = self.size_of(argument.size, lists), lists
        except Refused:
            written, constants = self.size_of(argument.size, singles), singles
        if None in self.problem_values and "ProblemSize" in argument.size.text:
            raise argument.size.node.error("the size of a vector must not depend on the config; ProblemSize here does")
        values = {**constants, "ProblemSize": self.problem_values}
        elements = argument.size.parsed(lambda parsed: parsed.evaluate(values))
        if elements < 1:
            raise argument.size.node.error(f"a vector has at least one element, not {number_text(elements)}")
        length = written.text if written.type is int else f"int({written.text})"
        return f"({length}) * {argument.width}" if argument.width > 1 else length

    def size_of(self, size, constants):
        names = Names(constants=constants, elements={"ProblemSize": self.problem})
        written = size.parsed(lambda parsed: Writer(parsed, names).write())
        if written.type is str:
            raise size.node.error("a number of elements is needed here, not a string")
        return written

    def add_arguments(self):
        if not self.t1.arguments:
            self.note("The file names no Arguments: the kernel is called without any.")
        for argument in self.t1.arguments:
            if argument.memory != "Symbol":
                self.passed.append(argument.name)
            if argument.memory == "Scalar":
                self.add_scalar(argument)
            if argument.memory == "Vector":
                self.add_buffer(argument)
            if argument.memory == "Symbol" or argument.memory == "Vector" and argument.is_also_symbol:
                self.add_symbol(argument)

    def add_argument(self, argument, node):
        self.kernel["arguments"].append(argument)
        self.place_last("arguments", node)

    def add_scalar(self, argument):
        if argument.width != 1:
            raise argument.node.error("scalars of vector types have no counterpart")
        value = argument.fill.value
        if value is None:
            raise argument.node.error('a scalar needs a "FillValue"')
        if argument.is_float:
            text = repr(argument.fill.double(0))
        else:
            low, high = integer_range(argument.type)
            if not low <= math.trunc(value) <= high:
                name = argument.node.find("Type").value
                raise argument.fill.value_node.error(f"{shown(str(value))} is not in the range of {name}, {low} to {high}")
            text = str(math.trunc(value))
        scalar = {"data_type": "DATA_TYPE_" + argument.type, "value": text}
        self.add_argument({"name": argument.name, "scalar": scalar}, argument.node)

    def fill_of(self, argument, length):
        """The data of a vector. An empty fill means the definition's default."""
        fill, kind = argument.fill, argument.fill.kind
        if kind == "Constant":
            value = fill.double(0)
            value = value if argument.is_float else float(math.trunc(value))
            return {"constant": {"value": value}} if value else {"zeros": {}}
        if kind == "Random":
            # Kernel Tuner draws from N(0, 1), KTT from [0, FillValue).
            if self.t1.is_kernel_tuner and argument.is_float:
                return {"normal": {}}
            high = fill.double(1)
            if not high > 0:
                raise argument.node.error(f"a random fill needs a FillValue above 0, not {number_text(high)}")
            return {"uniform": {"low": 0, "high": high if argument.is_float else max(1, math.floor(high))}}
        if kind == "Generator":
            step = self.element_step(argument, fill.source, "fill", length)
            self.kernel["prepare"].append({"step": step})
            return {"prepare_step": step["name"]}
        if kind == "File":
            raise argument.node.error(
                "data from scripts and files is not read; write a Constant, Random or Generator fill, or edit the definition"
            )
        return {}

    def element_step(self, argument, generator, verb, length):
        """A step that calls a function of the generated source, which sets every element of the argument."""
        type_ = CXX_TYPES.get(argument.type)
        if type_ is None or argument.width != 1:
            what = "vector type's" if argument.width != 1 else "half"
            raise generator.node.error(f"a generator of a {what} vector has no counterpart")
        names = Names({"i": Written(ELEMENT_INDEX)})
        value = generator.parsed(lambda parsed: Writer(parsed, names, is_cxx=True).write().text)
        entry = f"tunefarm_{verb}_{argument.name}"
        template = CUDA_FUNCTION if self.is_cuda else HOST_FUNCTION
        self.functions.append(template.format(entry=entry, type=type_, value=value, index=ELEMENT_INDEX))
        count = argument.name + "_count"
        if count not in self.counts:
            self.counts.add(count)
            self.add_argument({"name": count, "scalar": {"data_type": "DATA_TYPE_I64", "value": length}}, argument.node)
        launch = {"entry": entry, "arguments": [argument.name, count]}
        if self.is_cuda:
            launch.update(grid=[f"min(ceil_div({length}, 256), 4096)"], block=["256"])
        return {"name": f"{verb}_{argument.name}", "kernel": launch}

    def add_buffer(self, argument):
        length = self.lengths[argument.name] = self.length(argument)
        fill = self.fill_of(argument, length)
        access = argument.access
        if argument.is_output and access == "IN":
            self.note(f"Argument {argument.name} is an Output although its AccessType is ReadOnly; it counts as ReadWrite.")
            access = "INOUT"
        # What the file gives no expected values for is not compared.
        if access != "IN" and self.targets and argument.name not in self.targets:
            access = "SCRATCH"
        buffer = {"data_type": "DATA_TYPE_" + argument.type, "length": length, "access": "ACCESS_" + access}
        if access in ("OUT", "SCRATCH"):
            # A kernel may add to what it is said only to write: its first content is kept.
            if "zeros" in fill:
                buffer["init"] = "INIT_ZERO"
                fill = {}
            elif fill:
                buffer["init"] = "INIT_FILL"
        if fill:
            buffer["fill"] = fill
        self.add_argument({"name": argument.name, "buffer": buffer}, argument.node)
        self.has_output = self.has_output or access in ("OUT", "INOUT")

    def add_symbol(self, argument):
        if not self.is_cuda:
            self.note(f"The __constant__ {argument.name} is left out: host C++ has none.")
            return
        if argument.fill.kind == "Generator":
            raise argument.node.error(
                "a constant symbol with a generator has no counterpart; write a Constant or Random fill"
            )
        length = self.length(argument)
        symbol = {"symbol": argument.name, "data_type": "DATA_TYPE_" + argument.type, "length": length}
        fill = self.fill_of(argument, length)
        if fill:
            symbol["fill"] = fill
        name = argument.name if argument.memory == "Symbol" else argument.name + "_symbol"
        while any(other.name == name and other is not argument for other in self.t1.arguments):
            name += "_"
        self.add_argument({"name": name, "constant_symbol": symbol}, argument.node)
        if argument.is_also_symbol and argument.fill.kind == "Random":
            self.note(
                f"{argument.name} is passed and copied to the __constant__ of its name; the two hold different random "
                "numbers."
            )

    # ---- Reference ----

    def plan_reference(self):
        """Whether the outputs' expected values are given by the file: then only its targets are checked."""
        if self.options.get("is_unverified") or self.options.get("reference"):
            return
        for reference in self.t1.references:
            if reference.fill.kind not in ("Constant", "Generator"):
                source = reference.fill.source
                place = f"'{shown(source.text, 100)}'" if source else "another place"
                self.note(
                    f"ReferenceArguments: the expected values of {reference.target} come from {place}, which is not read; "
                    "results are compared with those of the default config instead. A kernel to compare with can be "
                    "named with --reference."
                )
                return
        self.targets = {reference.target for reference in self.t1.references}

    def add_reference(self):
        if self.options.get("is_unverified") or not self.has_output:
            if not self.has_output and not self.options.get("is_unverified"):
                self.note("No argument is an output, so nothing can be checked: results are marked as unverified.")
            why = "without a reference" if self.has_output else "from a T1 file that names no outputs"
            self.kernel["unverified_reason"] = f"imported {why}"
            return
        self.kernel["tolerance"] = self.tolerance()
        if self.options.get("reference"):
            steps = [{"kernel": self.reference_launch(self.options["reference"])}]
        elif not self.targets:
            if not self.t1.references:
                self.note(
                    "The file gives no expected values: every config is compared with the default config. --reference "
                    "names a kernel to compare with."
                )
            steps = [{"kernel": self.launch()}]
        else:
            steps = [self.expect_step(reference) for reference in self.t1.references]
        self.kernel["reference"] = {"steps": steps}

    def reference_launch(self, reference):
        entry = reference["entry"]
        if self.is_cuda and not (reference.get("grid") and reference.get("block")):
            raise Refused(f"the reference {entry} needs its grid and block: --reference-grid X,Y,Z --reference-block X,Y,Z")
        arguments = reference.get("arguments") or self.passed
        for name in arguments:
            if name not in self.passed:
                raise Refused(f"the reference {entry} wants the argument '{name}', which the file does not have")
        launch = {"entry": entry, "arguments": arguments}
        return {**launch, "grid": reference.get("grid") or [], "block": reference.get("block") or []}

    def expect_step(self, reference):
        target = next(argument for argument in self.t1.arguments if argument.name == reference.target)
        if reference.fill.kind == "Generator":
            value = reference.fill.source
        else:
            value = Text(reference.node, repr(reference.fill.double(0)))
        return self.element_step(target, value, "expect", self.lengths[reference.target])

    def tolerance(self):
        bounds = {"atol": TOLERANCE_DEFAULT, "rtol": TOLERANCE_DEFAULT}
        given = [reference for reference in self.t1.references if reference.threshold is not None]
        if given:
            bounds = {"atol": 0.0, "rtol": 0.0}
        for reference in given:
            key = "rtol" if reference.method == "SideBySideRelativeComparison" else "atol"
            bounds[key] = max(bounds[key], reference.threshold)
            if reference.method == "AbsoluteDifference":
                self.note(
                    f"ValidationMethod AbsoluteDifference of {reference.target} bounds the sum of all differences; here it "
                    "bounds each of them."
                )
        return bounds

    # ---- Sources ----

    def add_sources(self):
        source = self.options.get("source")
        folder = Folder(self.options["folder"])
        reference = self.options.get("reference")
        reference_path = folder.path_of(reference["file"]) if reference else ""
        if source:
            collector = Collector(folder, folder.path_of(source))
        else:
            if not self.t1.kernel_file:
                raise self.t1.kernel_node.error('"KernelFile" is missing; --source names the kernel\'s source')
            try:
                collector = Collector(folder, self.t1.kernel_file.value)
            except Refused as error:
                raise self.t1.kernel_file.error(f"{error.message}; --source names the kernel's source") from None
        name = collector.add_reference(reference_path) if reference else ""
        files = collector.wrapped(self.functions, name, self.is_cuda)
        encoded = [{"path": path, "content": base64.b64encode(content).decode()} for path, content in files]
        self.kernel["sources"] = encoded
