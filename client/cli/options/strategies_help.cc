#include "client/cli/options/strategies_help.h"

#include "client/cli/help_format.h"
#include "server/search/strategy.h"

namespace tunefarm::cli {

std::string StrategiesHelp(size_t columns) {
  return WrapLines(
      "Strategies decide which configs a search tries next. All of them propose valid configs only, none twice, and in "
      "the end the whole space.\n"
      "Without --strategy: exhaustive where the space has at most 10,000 configs and the budget allows all of them, "
      "else "
      "default.\n"
      "Each option is followed by its meaning, default and range.\n"
      "\n" +
          StrategyHelp() +
          "\n"
          "Examples:\n"
          "  tunefarm tune matmul --strategy genetic --strategy-option population=40 --max-trials 500\n"
          "  tunefarm simulate 17 --strategy default,genetic,random     compare them on what job 17 measured\n",
      columns);
}

}  // namespace tunefarm::cli
