"""Two hundred honest configs, from a microsecond to some ten milliseconds: none may be refused because its launches do
not look like its samples. What honest kernels do differently in a first launch is among them: they allocate, start
threads, build tables, and take longer on some inputs than on others."""

import pathlib
import shutil
import tempfile
import unittest

from farm import Farm, outcome, search

DEFINITION = """
display_name: "honest"
language: LANGUAGE_HOST_CXX
sources { path: "honest.cc" }
compile_options: ["-O2"]
dims { name: "N" default_value { int_value: 65536 } }
parameters { name: "KIND" values { ints: [0, 1, 2, 3, 4] } bind: BIND_RUN }
parameters { name: "COST" range { first: 0 last: 39 } bind: BIND_RUN }
arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN fill { normal {} } } }
arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
arguments { name: "kind" scalar { data_type: DATA_TYPE_I32 value: "KIND" } }
arguments { name: "cost" scalar { data_type: DATA_TYPE_I32 value: "COST" } }
launches { kernel { entry: "honest" arguments: ["x", "y", "n", "kind", "cost"] } }
reference { steps { kernel { entry: "reference" arguments: ["x", "y", "n"] } } }
tolerance { atol: 0 rtol: 0 }
"""

SOURCE = """
#include <math.h>
#include <stdint.h>
#include <thread>
#include <vector>

extern "C" void reference(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? 2 * x[i] : -x[i];
}

static void Spend(int64_t rounds) {
  for (volatile int64_t i = 0; i < rounds; i = i + 1) {
  }
}

extern "C" void honest(const float* x, float* y, int64_t n, int kind, int cost) {
  const int64_t rounds = (int64_t)(50 * pow(1.3, cost));
  switch (kind) {
    case 0:
      Spend(rounds);
      break;
    case 1: {
      std::vector<float> copy(x, x + n);
      Spend(rounds);
      reference(copy.data(), y, n);
      return;
    }
    case 2: {
      std::thread half([=] { reference(x, y, n / 2); Spend(rounds / 2); });
      reference(x + n / 2, y + n / 2, n - n / 2);
      half.join();
      return;
    }
    case 3: {
      static std::vector<double> table;
      if (table.empty()) {
        for (int i = 0; i < 100000; ++i) table.push_back(sqrt(i));
      }
      Spend(rounds + (table[4] == 2));
      break;
    }
    default:
      // A tenth more on some inputs than on others.
      Spend(rounds + (int64_t)(rounds * 0.1 * fabs(x[0] - floor(x[0]))));
  }
  reference(x, y, n);
}
"""


class Honest(unittest.TestCase):
    def test_none_is_refused(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-kernel."))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "kernel.pbtxt").write_text(DEFINITION)
        (folder / "honest.cc").write_text(SOURCE)
        with Farm() as farm:
            farm.start()
            # Without an early stop there is nothing that a config may lose against: each is looked at.
            job = farm.cli("submit", "--quiet", folder, "--policy", "fast", "--strategy", "exhaustive", "--measure",
                           "no_early_stop=true", "--measure", "no_reuse=true").stdout.strip()
            farm.cli("jobs", "watch", job, check=False)
            trials = farm.trials(job)
            self.assertEqual(len(search(trials)), 200)
            refused = [f"{outcome(t)}: {t.get('message', '')}" for t in trials if outcome(t) != "OK"]
            self.assertEqual(refused, [])


if __name__ == "__main__":
    unittest.main()
