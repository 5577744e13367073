"""The shape of the classes of server: how many private methods each declares, in how many .cc files its members are
defined, and how many methods each facet of the store has.

A textual reading of code in the project's format (.clang-format), which suffices for these counts: definitions of
members begin in the first column, access specifiers and members stand on lines of their own.
"""

import re

PRIVATE_METHODS_MAX = 25
CLASS_SOURCES_MAX = 2
# Virtual methods of an interface in server/store itself: each facet, and Store, which names the facets.
FACET_METHODS_MAX = 15
FACET_HEADER = re.compile(r"server/store/\w+\.h")

# (folder, class) -> why it may be larger. At most three.
EXCEPTIONS = {
    ("server/exec", "WorkerProcess"): "one state machine over the frames of one process: a short handler for each kind of frame and of end",
}
EXCEPTIONS_MAX = 3

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'', re.S)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
CLASS_HEAD = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?((?:\w+::)*\w+)(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{")
ANNOTATION = re.compile(r"\b[A-Z][A-Z_]{3,}\s*\([^()]*\)")
METHOD = re.compile(r"(?:~?\b[A-Za-z_]\w*|\boperator\s*[^\s\w(]+|\boperator\s*\(\s*\))\s*\(")
MEMBER_DEFINITION = re.compile(r"^(?![ \t#}])[^\n;{}=]*?\b((?:\w+::)*?)([A-Z]\w*)::~?(?:operator\b[^\n(]*|\w+)\(", re.M)


def code_of(text):
    """The text without comments, contents of literals, and preprocessor lines; its lines keep their numbers."""
    def blank(match):
        found = match.group(0)
        return ('""' if found.startswith('"') else "0" if found.startswith("'") else "") + "\n" * found.count("\n")
    return PREPROCESSOR.sub(blank, COMMENT_OR_TEXT.sub(blank, text))


def closing(code, opening):
    """The position of the brace that closes the one at `opening`."""
    depth = 0
    for position in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[position], 0)
        if depth == 0:
            return position
    return len(code)


def without_nested(body):
    """A class's body with each braced part, other than the class itself, replaced by a semicolon."""
    out, depth = [], 0
    for character in body:
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                out.append(";")
        elif depth == 0:
            out.append(character)
    return "".join(out)


def without_template_arguments(statement):
    while True:
        shorter = re.sub(r"<[^<>;]*>", "", statement)
        if shorter == statement:
            return statement
        statement = shorter


def is_method(statement):
    statement = statement.strip()
    if re.match(r"(using|typedef|friend|static_assert|enum|class|struct|union)\b", statement):
        return False
    statement = re.sub(r"\boperator\s*(<=>|<<|>>|<=|>=|<|>)", "operator_", statement)
    statement = without_template_arguments(ANNOTATION.sub("", statement))
    head = statement.split("(", 1)[0]
    if "=" in head and "operator" not in head:  # a member with an initializer
        return False
    return bool(METHOD.search(statement))


def classes(text):
    """(name, line, {access: [method declaration]}) of each class in a header."""
    code = code_of(text)
    for head in CLASS_HEAD.finditer(code):
        opening = head.end() - 1
        body = without_nested(code[opening + 1:closing(code, opening)])
        access = "private" if head.group(0).startswith("class") else "public"
        methods = {"public": [], "protected": [], "private": []}
        for part in re.split(r"\b(public|protected|private)\s*:(?!:)", body):
            if part in methods:
                access = part
                continue
            methods[access] += [statement.strip() for statement in part.split(";") if is_method(statement)]
        name = head.group(1)
        own = re.compile(rf"~?\b{re.escape(name.split('::')[-1])}\s*\(")
        for kind in methods:  # constructors and destructors are none
            methods[kind] = [method for method in methods[kind] if not own.match(re.sub(r"^(explicit|virtual|constexpr|inline)\s+", "", method))]
        yield name, code.count("\n", 0, head.start()) + 1, methods


def member_files(sources):
    """{(folder, qualified class): files that define members of it}, of {path: text} of .cc files."""
    found = {}
    for path, text in sources.items():
        for match in MEMBER_DEFINITION.finditer(code_of(text)):
            qualifiers, name = match.groups()
            found.setdefault((path.rsplit("/", 1)[0], qualifiers + name), set()).add(path)
    return found


def check(texts, exceptions=None):
    """Problems of {path: text} of server's .h and .cc files."""
    exceptions = EXCEPTIONS if exceptions is None else exceptions
    problems = []
    if len(exceptions) > EXCEPTIONS_MAX:
        problems.append(f"class_shape.py: {len(exceptions)} exceptions (at most {EXCEPTIONS_MAX})")
    used = set()
    for path, text in sorted(texts.items()):
        for name, line, methods in classes(text):
            count = len(methods["private"])
            key = (path.rsplit("/", 1)[0], name)
            if count > PRIVATE_METHODS_MAX and key in exceptions:
                used.add(key)
            elif count > PRIVATE_METHODS_MAX:
                problems.append(f"{path}:{line}: class {name} has {count} private methods; look for the missing concept (at most {PRIVATE_METHODS_MAX})")
            count = sum(method.startswith("virtual ") for method in methods["public"])
            if FACET_HEADER.fullmatch(path) and count > FACET_METHODS_MAX:
                problems.append(f"{path}:{line}: facet {name} of the store has {count} methods; cut it by subject (at most {FACET_METHODS_MAX})")
    sources = {path: text for path, text in texts.items() if path.endswith(".cc")}
    for key, files in sorted(member_files(sources).items()):
        if len(files) > CLASS_SOURCES_MAX and key in exceptions:
            used.add(key)
        elif len(files) > CLASS_SOURCES_MAX:
            names = ", ".join(sorted(file.rsplit("/", 1)[1] for file in files))
            problems.append(f"{key[0]}: members of {key[1]} are defined in {len(files)} files ({names}); look for the missing concept (at most {CLASS_SOURCES_MAX})")
    for folder, name in sorted(set(exceptions) - used):
        problems.append(f"class_shape.py: {folder} {name} needs no exception")
    return problems
