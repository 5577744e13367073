// The help topic `expressions`: the language of rules, sizes and launches, on one screen.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tunefarm::cli {

struct ExpressionSample {
  std::string_view text;  // an expression over the int dim N, the string dim dtype, and the parameters BLOCK and ORDER
  std::string_view meaning;
};

// Every operator and function of the language stands in one of them.
std::vector<ExpressionSample> ExpressionSamples();

std::string ExpressionsHelp(size_t columns);

}  // namespace tunefarm::cli
