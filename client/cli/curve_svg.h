// Curves with bands as an SVG picture: charts of one panel each (client/cli/chart_svg.h).
#pragma once

#include <string>
#include <vector>

namespace tunefarm::cli {

struct Curve {
  std::string name;
  std::vector<double> x, y;           // as many of each
  std::vector<double> y_low, y_high;  // a band around it; empty: none
};

struct CurvePlot {
  std::string title, x_label, y_label;
  std::vector<Curve> curves;
};

// One picture, the plots below each other. Numbers that are not finite leave gaps.
std::string CurvesToSvg(const std::vector<CurvePlot>& plots);

}  // namespace tunefarm::cli
