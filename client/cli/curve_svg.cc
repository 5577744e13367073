#include "client/cli/curve_svg.h"

#include <utility>

#include "client/cli/chart_svg.h"

namespace tunefarm::cli {

std::string CurvesToSvg(const std::vector<CurvePlot>& plots) {
  std::vector<Chart> charts;
  for (const CurvePlot& plot : plots) {
    Chart chart{plot.title, "", {plot.y_label}, {{{plot.x_label}, {}}}};
    for (const Curve& curve : plot.curves) {
      chart.panels[0].series.push_back(
          {ChartSeries::Kind::kLine, curve.name, curve.x, curve.y, curve.y_low, curve.y_high});
    }
    charts.push_back(std::move(chart));
  }
  return ChartsToSvg(charts);
}

}  // namespace tunefarm::cli
