"""A T1 file as values: the JSON in which tuning tools exchange problems (TuningSchema 1.0.0). Both dialects are read:
Kernel Tuner's, with ProblemSize and GridDivX/Y/Z, and KTT's, with GlobalSize and LocalSize; where a file has both,
ProblemSize and GridDiv count, since files are seen whose GlobalSize is a leftover."""

import math
import re

from json_text import Document, Refused, fits, inexact, shown
from python_text import PythonText, TextError, literal

PARAMETERS_MAX = 64
CONDITIONS_MAX = 128
ARGUMENTS_MAX = 64
VALUES_MAX = 4096
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
PARAMETER_TYPES = {"int": int, "uint": int, "float": float, "bool": bool, "string": str}
TYPE_NAMES = {int: "int", float: "float", bool: "bool", str: "string"}
DATA_TYPES = {
    "bool": "U8", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "half": "F16", "float": "F32", "double": "F64",
}  # fmt: skip
VECTOR_TYPE = re.compile(r"(half|float|double)(2|4|8|16)")
AXES = "XYZ"


class Text:
    """A Python expression of a size or of the launch, and the node that it comes from."""

    def __init__(self, node, text):
        self.node, self.text = node, text

    @classmethod
    def of(cls, node):
        if node.is_text():
            return cls(node, node.value)
        if not node.is_int():
            raise node.error(f"an integer or an expression is needed here, not {node.kind()}")
        if not fits(node.value):
            raise node.error(f"{shown(str(node.value))} does not fit in 64 bits")
        return cls(node, str(node.value))

    def parsed(self, use):
        """`use` of the PythonText; what is wrong with it is said with its place in the file."""
        try:
            return use(PythonText(self.text))
        except TextError as error:
            raise self.node.error_in_text(error.column, error.message) from None


class Parameter:
    def __init__(self, node, name, type_):
        self.node, self.name, self.type = node, name, type_
        self.values = []  # without repeats
        self.default = None


class Fill:
    """FillType, FillValue and DataSource. `kind` is None, Constant, Random, Generator or File."""

    def __init__(self, node):
        kinds = {
            "Constant": "Constant", "Random": "Random", "Generator": "Generator", "Script": "File", "BinaryRaw": "File",
            "BinaryHDF": "File",
        }  # fmt: skip
        self.value = node.optional_number("FillValue")
        self.value_node = node.find("FillValue")
        kind = node.find("FillType")
        self.kind = kind.one_of(kinds) if kind else "Constant" if self.value is not None else None
        source = node.find("DataSource")
        self.source = Text(source, source.string()) if source else None
        if self.kind == "Generator" and not self.source:
            raise node.error('a generator needs a "DataSource"')

    def double(self, default):
        """FillValue as a double, which holds it exactly."""
        if type(self.value) is int and inexact(self.value):
            raise self.value_node.error(inexact(self.value))
        return float(default if self.value is None else self.value)


class Argument:
    def __init__(self, node, index):
        if not isinstance(node.value, dict):
            raise node.error(f"an object is needed here, not {node.kind()}")
        self.node = node
        self.name = f"argument{index}"
        if node.find("Name"):
            self.name = identifier(node.find("Name"))
        self.type, self.width = self.read_type(node.required("Type"))
        memory = node.required("MemoryType")
        self.memory = memory.one_of({"Scalar": "Scalar", "Vector": "Vector", "Symbol": "Symbol", "Local": "Local"})
        if self.memory == "Local":
            raise memory.error("arguments in local memory have no counterpart; use SharedMemory of the KernelSpecification")
        # Kernel Tuner's MemType "Constant": passed, and copied to the __constant__ of its name.
        constant = node.find("MemType")
        self.is_also_symbol = bool(constant and constant.one_of({"Constant": True, "Global": False}))
        size = node.find("Size")
        self.size = Text.of(size) if size else None
        if not size and self.memory != "Scalar":
            raise node.error('"Size" is missing')
        self.fill = Fill(node)
        access = node.find("AccessType")
        self.access = access.one_of({"ReadOnly": "IN", "WriteOnly": "OUT", "ReadWrite": "INOUT"}) if access else "INOUT"
        output = node.find("Output")
        self.is_output = bool(output and type(output.value) in (bool, int, float) and output.value)

    @property
    def is_float(self):
        return self.type.startswith("F")

    @staticmethod
    def read_type(node):
        """float4 is 4 of F32."""
        if node.is_text():
            if node.value == "custom":
                raise node.error("arguments of type custom have no counterpart; declare a vector of a plain type instead")
            vector = VECTOR_TYPE.fullmatch(node.value)
            if vector:
                return DATA_TYPES[vector.group(1)], int(vector.group(2))
        return node.one_of(DATA_TYPES), 1


class Reference:
    """What a vector must hold behind the kernel."""

    def __init__(self, node, arguments):
        self.node = node
        self.target = node.required("TargetName").string()
        if not any(argument.name == self.target and argument.memory == "Vector" for argument in arguments):
            raise node.find("TargetName").error(f"there is no vector '{shown(self.target)}'")
        self.fill = Fill(node)
        methods = {"AbsoluteDifference", "SideBySideComparison", "SideBySideRelativeComparison"}
        method = node.find("ValidationMethod")
        self.method = method.one_of({name: name for name in methods}) if method else "SideBySideComparison"
        self.threshold = node.optional_number("ValidationThreshold")


def identifier(node):
    text = node.string()
    if not IDENTIFIER.fullmatch(text):
        raise node.error(f"'{shown(text)}' cannot be a name: write [A-Za-z_][A-Za-z0-9_]*, at most 63 characters")
    return text


def entries_of(node):
    return node.value if isinstance(node.value, list) else [node]


class T1:
    def __init__(self, data):
        self.root = Document(data).root
        self.notes = []  # what has no meaning here, or was put right, in sentences for people
        self.parameters = []
        self.conditions = []  # Text
        self.read_space(self.root.required("ConfigurationSpace"))
        general = self.root.find("General")
        name = general and general.find("BenchmarkName")
        self.benchmark_name = name.value if name and name.is_text() else ""
        self.budget = self.read_budget()
        search = self.root.find("Search")
        if search:
            name = shown(search.required("Name").string())
            self.notes.append(f"Search '{name}' is not taken over; tunefarm tune has --strategy.")
        self.read_kernel(self.root.required("KernelSpecification"))

    # ---- ConfigurationSpace ----

    def read_space(self, space):
        node = space.required("TuningParameters")
        if len(node.array()) > PARAMETERS_MAX:
            raise node.error(f"{len(node.value)} parameters are too many; at most {PARAMETERS_MAX} are read")
        for entry in node.value:
            parameter = self.read_parameter(entry)
            if any(other.name == parameter.name for other in self.parameters):
                raise entry.error(f"there is already a parameter '{parameter.name}'")
            self.parameters.append(parameter)
        node = space.find("Conditions")
        if not node:
            return
        if len(node.array()) > CONDITIONS_MAX:
            raise node.error(f"{len(node.value)} conditions are too many; at most {CONDITIONS_MAX} are read")
        names = {parameter.name for parameter in self.parameters}
        for entry in node.value:
            expression = entry.required("Expression")
            self.conditions.append(Text(expression, expression.string()))
            for name in entry.find("Parameters").array() if entry.find("Parameters") else []:
                if not name.is_text() or name.value not in names:
                    raise name.error("this is not the name of a parameter")

    def read_parameter(self, entry):
        name = identifier(entry.required("Name"))
        type_node = entry.required("Type")
        parameter = Parameter(entry, name, type_node.one_of(PARAMETER_TYPES))
        node = entry.required("Values")
        values = self.read_values(node)
        # Kernel Tuner does not look at the type.
        if type_node.value == "int" and any(type(value) is float for value in values):
            self.notes.append(f"Parameter {name} is an int with values that are none; it counts as a float.")
            parameter.type = float
        converted = [self.convert(node, value, parameter.type, type_node.value == "uint") for value in values]
        # By text: 0.0 and -0.0 are two values.
        distinct = {repr(value): value for value in converted}
        parameter.values = list(distinct.values())
        if len(distinct) < len(converted):
            self.notes.append(f"Parameter {name} lists a value twice; it counts once.")
        if not parameter.values:
            raise node.error(f"'{name}' has no values")
        if len(parameter.values) > VALUES_MAX:
            raise node.error(f"'{name}' has {len(parameter.values)} values; at most {VALUES_MAX} are read")
        self.read_default(entry, parameter, type_node.value == "uint")
        return parameter

    def read_default(self, entry, parameter, is_unsigned):
        node = entry.find("Default")
        if not node:
            return
        if isinstance(node.value, (list, dict)):
            self.notes.append(f"Parameter {parameter.name}: its Default is not one value and is not read.")
            return
        try:
            value = self.convert(node, self.scalar(node), parameter.type, is_unsigned)
        except Refused:
            value = None
        if any(repr(value) == repr(known) for known in parameter.values):
            parameter.default = value
        else:
            text = shown(literal(node.value))
            self.notes.append(f"Parameter {parameter.name}: the Default {text} is not among its values.")

    @staticmethod
    def scalar(node):
        if type(node.value) not in (bool, int, float, str):
            raise node.error(f"a value is needed here, not {node.kind()}")
        if node.is_int() and not fits(node.value):
            raise node.error(f"{shown(str(node.value))} does not fit in 64 bits")
        return node.value

    def read_values(self, node):
        """The schema wants Python text; arrays are seen too."""
        if isinstance(node.value, list):
            return [self.scalar(child) for child in node.value]
        if not node.is_text():
            raise node.error(f"Python text is needed here, not {node.kind()}")
        value = Text(node, node.value).parsed(lambda text: text.evaluate())
        return value if isinstance(value, list) else [value]

    @staticmethod
    def convert(node, value, type_, is_unsigned):
        kind = type(value)
        if type_ is int and kind in (bool, int):
            if is_unsigned and value < 0:
                raise node.error(f"{value} is below 0, and the type is uint")
            return int(value)
        if type_ is float and kind in (bool, int, float):
            if kind is int and inexact(value):
                raise node.error(inexact(value))
            return float(value)
        if type_ is bool and kind in (bool, int) and value in (0, 1):
            return bool(value)
        if type_ is str and kind is str:
            return value
        raise node.error(f"{'a list' if kind is list else shown(literal(value))} is no {TYPE_NAMES[type_]}")

    # ---- Budget ----

    def read_budget(self):
        """As options of `tunefarm tune`: "--max-trials 10". An array of budgets, or one budget, as BAT writes it."""
        options = []
        node = self.root.find("Budget")
        budgets = [] if not node else [node] if isinstance(node.value, dict) else node.array()
        for entry in budgets:
            kind = entry.required("Type").one_of(
                {"TuningDuration": "seconds", "ConfigurationCount": "trials", "ConfigurationFraction": None}
            )
            value = entry.required("BudgetValue")
            if not value.is_number() or not 0 <= value.value <= 10**12:
                raise value.error("this is not a number from 0 to 10^12")
            if kind is None:
                self.notes.append(
                    f"The budget of {value.value} of the configs has no counterpart; tunefarm tune has --max-trials."
                )
            else:
                options.append(f"--max-{kind} {math.ceil(value.value)}")
        return " ".join(options)

    # ---- KernelSpecification ----

    def read_kernel(self, kernel):
        self.kernel_node = kernel
        self.language = kernel.required("Language")
        self.language.one_of({name: name for name in ("CUDA", "OpenCL", "Vulkan", "Hypertuner")})
        is_kernel = self.language.value != "Hypertuner"
        self.kernel_name = kernel.required("KernelName").string()
        # A hypertuner has no kernel.
        self.kernel_file = kernel.required("KernelFile") if is_kernel else kernel.find("KernelFile")
        if self.kernel_file:
            self.kernel_file.string()
        options = kernel.find("CompilerOptions")
        self.compile_options = [node for node in options.array() if node.string()] if options else []
        self.shared_memory = 0
        shared = kernel.find("SharedMemory")
        if shared:
            if not shared.is_int() or not 0 <= shared.value or not fits(shared.value):
                raise shared.error("a number of bytes is needed here")
            self.shared_memory = shared.value
        self.read_launch(kernel, is_kernel)
        self.read_arguments(kernel)

    def read_launch(self, kernel, is_kernel):
        size = kernel.find("ProblemSize")
        self.problem_size = [Text.of(node) for node in entries_of(size)] if size else []
        if size and not 1 <= len(self.problem_size) <= 3:
            raise size.error(f"a problem has 1 to 3 sizes, not {len(self.problem_size)}")
        divisors = [kernel.find("GridDiv" + axis) for axis in AXES]
        self.grid_div = [[Text.of(node) for node in entries_of(entry)] if entry else [] for entry in divisors]
        self.global_size = self.read_sizes(kernel.find("GlobalSize"))
        self.local_size = self.read_sizes(kernel.find("LocalSize"))
        kind = kernel.find("GlobalSizeType")
        kinds = {"CUDA": "blocks", "Vulkan": "blocks", "OpenCL": "threads"}
        self.global_size_type = kind.one_of(kinds) if kind else kinds.get(self.language.value, "blocks")
        # Whether grid and block follow Kernel Tuner's rules.
        has_grid_div = any(entry is not None for entry in divisors)
        self.is_kernel_tuner = bool(self.problem_size) and (has_grid_div or self.global_size[0] is None)
        if is_kernel and not self.is_kernel_tuner and self.global_size[0] is None:
            raise kernel.error('there is neither "ProblemSize" nor a "GlobalSize" with "X"')

    @staticmethod
    def read_sizes(node):
        if node and not isinstance(node.value, dict):
            raise node.error(f"an object is needed here, not {node.kind()}")
        entries = [node.find(axis) if node else None for axis in AXES]
        return [Text.of(entry) if entry else None for entry in entries]

    def read_arguments(self, kernel):
        self.arguments, self.references = [], []
        node = kernel.find("Arguments")
        if node and len(node.array()) > ARGUMENTS_MAX:
            raise node.error(f"{len(node.value)} arguments are too many; at most {ARGUMENTS_MAX} are read")
        for entry in node.value if node else []:
            argument = Argument(entry, len(self.arguments))
            if any(other.name == argument.name for other in self.arguments):
                raise entry.error(f"there is already an argument '{argument.name}'")
            self.arguments.append(argument)
        node = kernel.find("ReferenceArguments")
        for entry in node.array() if node else []:
            self.references.append(Reference(entry, self.arguments))
