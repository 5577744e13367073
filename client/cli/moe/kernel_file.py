"""Reads the fused mixture-of-experts kernel of vLLM or SGLang in a user's file, and writes the sources by which the
definition kernels/fused_moe launches it. Run as `python3 -I -S -c` with the file on standard input; nothing of the
file is executed. Writes {"kernel": ..., "products": ...}, the texts of two modules, or {"error": one sentence} as
JSON."""

import ast
import json
import sys

KERNEL = "fused_moe_kernel"
# What up and down are launched with, by the names of the kernel's own parameters.
PASSED = ("a_ptr", "b_ptr", "c_ptr", "a_scale_ptr", "b_scale_ptr", "topk_weights_ptr", "sorted_token_ids_ptr",
          "expert_ids_ptr", "num_tokens_post_padded_ptr", "N", "K", "EM", "num_valid_tokens", "stride_am", "stride_ak",
          "stride_be", "stride_bk", "stride_bn", "stride_cm", "stride_cn", "stride_asm", "stride_ask", "stride_bse",
          "stride_bsk", "stride_bsn")
TILES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M")
IS_FP8 = "a_ptr.dtype.element_ty == tl.uint8"
# Arguments that are not passed unchanged. Scales are None without fp8.
GIVEN = {"a_ptr": "as_numbers(a_ptr)", "b_ptr": "as_numbers(b_ptr)",
         "a_scale_ptr": f"a_scale_ptr if {IS_FP8} else None", "b_scale_ptr": f"b_scale_ptr if {IS_FP8} else None"}
# Parameters that some versions of the kernel have, with the values that the frameworks pass for a layer in bf16, or in
# fp8 with scales of blocks, without biases, tensor descriptors and a fused sum. Other parameters keep their default.
KNOWN = {"group_n": f"128 if {IS_FP8} else 0", "group_k": f"128 if {IS_FP8} else 0",
         "compute_type": "c_ptr.dtype.element_ty", "use_fp8_w8a8": IS_FP8, "use_int8_w8a8": "False",
         "use_int8_w8a16": "False", "use_int4_w4a16": "False", "per_channel_quant": "False",
         # vLLM
         "b_bias_ptr": "None", "stride_bbe": "0", "stride_bbn": "0", "HAS_BIAS": "False", "SPLIT_K": "1",
         "naive_block_assignment": "False", "SWAP_AB": "is_swapped", "USE_TD": "False",
         # SGLang
         "a_desc": "None", "b_desc": "None", "bias_ptr": "None", "stride_bias_e": "0", "stride_bias_n": "0",
         "c_sorted": "False", "filter_expert": "has_other_ranks", "swap_ab": "is_swapped",
         "FUSE_SUM_ALL_REDUCE": "False", "ROUTER_TOPK": "1"}
OF_PRODUCT = {"up": {"MUL_ROUTED_WEIGHT": "False", "top_k": "topk", "even_Ks": "up_is_even"},
              "down": {"MUL_ROUTED_WEIGHT": "True", "top_k": "1", "even_Ks": "down_is_even"}}
# Values of the definition that are passed as tl.constexpr and used in the calls of the kernel.
DERIVED = ("topk", "has_other_ranks", "is_swapped", "up_is_even", "down_is_even")
NO_CODE = ("launch_metadata", "repr")  # arguments of @triton.jit that do not change the code


class Refused(Exception):
    pass


def last_name(node):
    """"jit" of @triton.jit(...)."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def parameters_of(function):
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def is_constexpr(parameter):
    return parameter.annotation is not None and last_name(parameter.annotation) == "constexpr"


def stored_names(statement):
    return [node.id for node in ast.walk(statement)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]


def module_bindings(tree):
    """The statements that give each name of the module its value."""
    bindings = {}

    def visit(statements):
        for statement in statements:
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                names = [statement.name]
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                names = [(alias.asname or alias.name).partition(".")[0] for alias in statement.names]
            elif isinstance(statement, (ast.If, ast.Try, ast.With)):
                visit(statement.body)
                visit(getattr(statement, "orelse", []))
                for handler in getattr(statement, "handlers", []):
                    visit(handler.body)
                visit(getattr(statement, "finalbody", []))
                continue
            else:
                names = stored_names(statement)
            for name in names:
                bindings.setdefault(name, []).append(statement)

    visit(tree.body)
    return bindings


def names_used(function):
    """Those that are defined outside of the function, in the order of their first use."""
    own = {parameter.arg for parameter in parameters_of(function)}
    for statement in function.body:
        own.update(stored_names(statement))
    used = [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    builtin = vars(__builtins__) if not isinstance(__builtins__, dict) else __builtins__
    return [name for name in dict.fromkeys(used) if name not in own and name not in builtin]


class Collector:
    """The kernel and what it uses, each once."""

    def __init__(self, bindings):
        self._bindings = bindings
        self._done = set()
        self._imports, self._constants, self._functions = [], [], []

    def text(self):
        return "\n\n".join(["\n".join(dict.fromkeys(self._imports)), *self._constants, *self._functions]) + "\n"

    def add(self, name, user):
        if name in self._done:
            return
        self._done.add(name)
        bound = self._bindings.get(name, [])
        imported = [statement for statement in bound if isinstance(statement, (ast.Import, ast.ImportFrom))]
        if bound and len(imported) == len(bound):
            self._imports.append(self._import(name, imported[0], user))
        elif len(bound) != 1:
            times = f"{len(bound)} times" if bound else "nowhere in it"
            raise Refused(f"'{name}', which {user} uses, is defined {times}")
        elif isinstance(bound[0], ast.FunctionDef):
            self._add_function(bound[0], user)
        elif self._is_constant(bound[0]):
            for used in {node.id for node in ast.walk(bound[0]) if isinstance(node, ast.Name)} & {"tl", "triton"}:
                self.add(used, user)
            self._constants.append(ast.unparse(bound[0]))
        else:
            raise Refused(f"'{name}', which {user} uses, gets its value when the file is imported, and the file is not "
                          "imported")

    @staticmethod
    def _import(name, statement, user):
        # Frameworks import Triton through modules of their own.
        if name in ("tl", "triton"):
            return "import triton" if name == "triton" else "import triton.language as tl"
        for alias in statement.names:
            if (alias.asname or alias.name).partition(".")[0] != name:
                continue
            module = statement.module if isinstance(statement, ast.ImportFrom) else alias.name
            if (module or "").partition(".")[0] == "triton" and not getattr(statement, "level", 0):
                return ast.unparse(type(statement)(**{**vars(statement), "names": [alias]}))
        raise Refused(f"'{name}', which {user} uses, is imported by line {statement.lineno}; the kernel may use Triton "
                      "and what its own file defines")

    @staticmethod
    def _is_constant(statement):
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            return False
        value = statement.value
        if isinstance(value, ast.Call) and last_name(value) == "constexpr" and len(value.args) == 1:
            value = value.args[0]
        try:
            ast.literal_eval(value)
        except ValueError:
            return False
        return True

    def _add_function(self, function, user):
        name = function.name
        decorators = [last_name(item) for item in function.decorator_list]
        if not decorators:
            raise Refused(f"'{name}', which {user} uses, is no function with @triton.jit")
        for decorator in decorators:
            if decorator not in ("jit", "constexpr_function"):
                raise Refused(f"'{name}' is decorated by @{decorator}; only @triton.jit is supported")
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call):
                decorator.keywords = [item for item in decorator.keywords if item.arg not in NO_CODE]
        for parameter in parameters_of(function):
            if not is_constexpr(parameter):
                parameter.annotation = None  # has no effect where one function calls another
        function.returns = None
        for used in names_used(function):
            self.add(used, name)
        self._functions.append(ast.unparse(function))


def not_specialised(function):
    """The arguments that the kernel itself does not specialise on."""
    for decorator in function.decorator_list:
        for item in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if item.arg == "do_not_specialize" and isinstance(item.value, (ast.List, ast.Tuple)):
                listed = [getattr(part, "value", None) for part in item.value.elts]
                return [name for name in PASSED if name in listed]
    return []


def values_of(function, product):
    """What each of the kernel's parameters is called with."""
    parameters = {parameter.arg: parameter for parameter in parameters_of(function)}
    for name in (*PASSED, *TILES):
        if name not in parameters:
            raise Refused(f"{KERNEL} has no parameter '{name}', which those of vLLM and SGLang have")
        if name in PASSED and is_constexpr(parameters[name]):
            raise Refused(f"'{name}' of {KERNEL} is a tl.constexpr, but it is passed at run time")
    known = {**KNOWN, **OF_PRODUCT[product]}
    values = {name: GIVEN.get(name, name) for name in (*PASSED, *TILES)}
    arguments = function.args
    own = [*arguments.posonlyargs, *arguments.args]
    with_default = {parameter.arg for parameter in own[len(own) - len(arguments.defaults):]}
    with_default.update(one.arg for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults) if value is not None)
    for name in parameters:
        if name in known:
            values[name] = known[name]
        elif name not in values and name not in with_default:
            raise Refused(f"'{name}' of {KERNEL} is unknown and has no default; this version is not supported")
    if arguments.posonlyargs or arguments.vararg or arguments.kwarg:
        raise Refused(f"{KERNEL} has parameters that cannot be passed by name")
    return {name: values[name] for name in parameters if name in values}


def product_text(function, product):
    listed = ", ".join([*PASSED, *(f"{name}: tl.constexpr" for name in (*TILES, *DERIVED))])
    given = ", ".join(f"{name}={value}" for name, value in values_of(function, product).items())
    fixed = not_specialised(function)
    return f"@triton.jit(do_not_specialize={fixed!r})\ndef {product}({listed}):\n    {KERNEL}({given})\n"


def read(source):
    try:
        tree = ast.parse(source.decode("utf-8"))
    except (SyntaxError, ValueError) as error:
        raise Refused(f"it is no source of Python in UTF-8: {error}") from None
    bindings = module_bindings(tree)
    found = [statement for statement in bindings.get(KERNEL, []) if isinstance(statement, ast.FunctionDef)]
    if not found:
        raise Refused(f"it defines no function {KERNEL}; give vLLM's model_executor/layers/fused_moe/fused_moe.py or "
                      "SGLang's fused_moe_triton_kernels.py")
    # Before the collector, which removes arguments of decorators and annotations.
    products = "\n\n".join(product_text(found[-1], product) for product in OF_PRODUCT)
    collector = Collector(bindings)
    collector.add(KERNEL, KERNEL)
    return {"kernel": collector.text(),
            "products": "import triton\nimport triton.language as tl\n"
                        "from fused_moe_data import align, as_numbers, count, draw, reference, route\n"
                        f"from user_kernel import {KERNEL}\n\n\n" + products}


def main():
    try:
        answer = read(sys.stdin.buffer.read())
    except Refused as refused:
        answer = {"error": str(refused)}
    except RecursionError:
        answer = {"error": "its source is nested too deeply"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
