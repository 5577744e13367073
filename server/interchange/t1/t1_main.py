"""Reads a request and a T1 file from standard input, and writes a kernel definition or what is wrong as JSON.

The request is one line of JSON, `{"modules": [[name, text], ...], "options": {...}}`; the bytes of the file follow. The
answer is either `{"error": text, "place": "12:7", "is_missing": false}` or what t1_definition.Maker.answer() returns,
with the kernel as text.
"""

import json
import resource
import sys

from json_text import Refused, shown
from t1_definition import Maker
from t1_file import T1

MEMORY_BYTES_MAX = 1 << 30
CPU_SECONDS_MAX = 20
RECURSION_MAX = 20_000  # of a tree of python_text.OPERATORS_MAX levels


def limit(kind, most):
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def answer(data, options):
    try:
        made = Maker(T1(data), options).answer()
        made["kernel"] = json.dumps(made["kernel"])
        return made
    except Refused as error:
        message = f"{error.path}: {error.message}" if error.path else error.message
        return {"error": message, "place": error.place, "is_missing": error.is_missing}
    except RecursionError:
        return {"error": "an expression of the file is nested too deeply", "place": "1:1"}
    except MemoryError:
        return {"error": f"reading the file takes more than {MEMORY_BYTES_MAX >> 20} MiB of memory", "place": "1:1"}
    except Exception as error:  # one sentence, whatever it is
        return {"error": f"the file cannot be read ({type(error).__name__}: {shown(str(error), 200)})", "place": "1:1"}


def main(options):
    limit(resource.RLIMIT_AS, MEMORY_BYTES_MAX)
    limit(resource.RLIMIT_CPU, CPU_SECONDS_MAX)
    limit(resource.RLIMIT_CORE, 0)
    sys.setrecursionlimit(RECURSION_MAX)
    json.dump(answer(sys.stdin.buffer.read(), options), sys.stdout)
