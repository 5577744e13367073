#include "client/cli/options/expressions_help.h"

#include <fmt/core.h>

#include <string>

#include "client/cli/help_format.h"
#include "server/device/device_class.h"
#include "server/expression/expression.h"

namespace tunefarm::cli {

std::vector<ExpressionSample> ExpressionSamples() {
  return {
      {"12 + 0x1f + 1_000", "whole numbers of 64 bits; a result that does not fit is an error"},
      {"N * 2.5 - 1e-3", "floating point"},
      {"dtype == 'bf16' or dtype != \"f16\"", "texts stand in single or double quotes"},
      {"True and not False", "truth values; and, or return an operand"},
      {"32 <= BLOCK < 1024 and N > 0 >= -N", "comparisons may be chained"},
      {"BLOCK in (32, 64, N + 1)", "one of a list; also in [...]; in a text: part of it"},
      {"ORDER not in ['row', 'col']", "none of a list"},
      {"2 * N if ORDER == 'row' else N", "a choice"},
      {"N // BLOCK", "quotient, rounded down: a whole number"},
      {"N / BLOCK", "quotient, always a float, so that sizes need // or int()"},
      {"N % BLOCK == 0", "remainder, with the sign of the divisor"},
      {"2 ** 10", "power"},
      {"ceil_div(N, BLOCK)", "quotient, rounded up: blocks that cover N"},
      {"round_up(N, BLOCK)", "the next multiple of BLOCK"},
      {"min(N, BLOCK, 7) + max(N, 1) + abs(-N)", "of two or more; absolute value"},
      {"log2(BLOCK)", "a float, exact for powers of two"},
      {"is_pow2(BLOCK)", "whether BLOCK is a power of two"},
      {"int(2.5) + float(N) + bool(N)", "conversions; int rounds towards 0"},
      {"round(N / 3, 2)", "to so many digits; halves go to the even digit"},
      {"N >> 2 & 7 | 1 << 3 ^ ~0", "bits of whole numbers"},
      {"all(x % 2 == 0 for x in [N, BLOCK])", "whether each is true"},
      {"any([N > 1, BLOCK > 2])", "whether one of a list is true"},
      {"sum(x * x for x in range(4))", "also min and max of a list or a comprehension"},
  };
}

std::string ExpressionsHelp(size_t columns) {
  std::string text =
      "Expressions are the part of Python that rules, sizes and launches need, with Python's precedence and results. "
      "They stand as texts in kernel.pbtxt:\n"
      "\n"
      "  constraints { expression: \"BLOCK * 4 <= N and N % BLOCK == 0\" reason: \"whole blocks\" }\n"
      "\n";
  for (const ExpressionSample& sample : ExpressionSamples())
    text += fmt::format("  {:<40}{}\n", sample.text, sample.meaning);
  text +=
      "\n"
      "Names are those of dims, parameters and of derived values that are declared before. Besides them:\n";
  std::string device;
  for (const auto& [name, value] : DeviceClass().Constants()) device += (device.empty() ? "" : ", ") + name;
  text += "  device.*  " + device + "\n";
  text +=
      "  kernel.*  of the compiled kernel, for launches and scalars: kernel.max_active_blocks, kernel.registers, "
      "kernel.static_shared_bytes\n"
      "Lengths of buffers and tolerances depend on dims only, lengths of scratch buffers also on parameters.\n"
      "An expression has at most 4,096 bytes and 64 levels of nesting. tunefarm kernels check shows errors with a "
      "caret.\n";
  return WrapLines(text, columns);
}

}  // namespace tunefarm::cli
