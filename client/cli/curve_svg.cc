#include "client/cli/curve_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace tunefarm::cli {
namespace {

constexpr double kWidth = 760, kHeight = 320;  // of one plot
constexpr double kLeft = 70, kRight = 170, kTop = 36, kBottom = 48;
// Distinguishable without colour vision, on white.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out;
}

struct Axis {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double from = 0, to = 1;  // on the picture

  void Cover(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void Settle() {
    if (!(low <= high)) low = 0, high = 1;
    if (low == high) high = low + 1;
  }
  double At(double value) const { return from + (value - low) / (high - low) * (to - from); }
  // 1, 2 or 5 times a power of ten, about five of them.
  double Step() const {
    const double rough = (high - low) / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= rough) return factor * power;
    }
    return 10 * power;
  }
};

std::string Points(const Curve& curve, const std::vector<double>& values, const Axis& x, const Axis& y) {
  std::string points;
  for (size_t i = 0; i < curve.x.size() && i < values.size(); ++i) {
    if (!std::isfinite(curve.x[i]) || !std::isfinite(values[i])) continue;
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x.At(curve.x[i]), y.At(values[i]));
  }
  return points;
}

std::string AxesToSvg(const CurvePlot& plot, const Axis& x, const Axis& y) {
  std::string svg = fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" font-weight=\"bold\">{}</text>\n", kLeft, y.to - 14,
                                Escaped(plot.title));
  for (double tick = std::ceil(x.low / x.Step()) * x.Step(); tick <= x.high + x.Step() * 1e-9; tick += x.Step()) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:.6g}</text>\n",
        x.At(tick), y.from, y.to, y.from + 16, std::fabs(tick) < x.Step() * 1e-9 ? 0.0 : tick);
  }
  for (double tick = std::ceil(y.low / y.Step()) * y.Step(); tick <= y.high + y.Step() * 1e-9; tick += y.Step()) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.6g}</text>\n",
        x.from, x.to, y.At(tick), x.from - 6, y.At(tick) + 4, std::fabs(tick) < y.Step() * 1e-9 ? 0.0 : tick);
  }
  svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n", (x.from + x.to) / 2,
                     y.from + 36, Escaped(plot.x_label));
  svg += fmt::format("<text transform=\"translate({:.0f},{:.0f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     x.from - 52, (y.from + y.to) / 2, Escaped(plot.y_label));
  return svg;
}

std::string PlotToSvg(const CurvePlot& plot, double top) {
  Axis x, y;
  for (const Curve& curve : plot.curves) {
    for (const double value : curve.x) x.Cover(value);
    for (const std::vector<double>* values : {&curve.y, &curve.y_low, &curve.y_high}) {
      for (const double value : *values) y.Cover(value);
    }
  }
  x.Settle();
  y.Settle();
  x.from = kLeft, x.to = kWidth - kRight;
  y.from = top + kHeight - kBottom, y.to = top + kTop;
  std::string svg = AxesToSvg(plot, x, y);
  for (size_t i = 0; i < plot.curves.size(); ++i) {
    const Curve& curve = plot.curves[i];
    const char* const colour = kColours[i % std::size(kColours)];
    if (!curve.y_low.empty()) {
      Curve back = curve;
      std::reverse(back.x.begin(), back.x.end());
      std::reverse(back.y_high.begin(), back.y_high.end());
      svg += fmt::format("<polygon points=\"{} {}\" fill=\"{}\" fill-opacity=\"0.15\"/>\n",
                         Points(curve, curve.y_low, x, y), Points(back, back.y_high, x, y), colour);
    }
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                       Points(curve, curve.y, x, y), colour);
    const double line = y.to + 8 + 18 * static_cast<double>(i);
    svg += fmt::format(
        "<line x1=\"{0:.0f}\" x2=\"{1:.0f}\" y1=\"{2:.0f}\" y2=\"{2:.0f}\" stroke=\"{3}\" stroke-width=\"3\"/>"
        "<text x=\"{4:.0f}\" y=\"{5:.0f}\">{6}</text>\n",
        x.to + 12, x.to + 32, line, colour, x.to + 38, line + 4, Escaped(curve.name));
  }
  return svg;
}

}  // namespace

std::string CurvesToSvg(const std::vector<CurvePlot>& plots) {
  const double height = kHeight * static_cast<double>(plots.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  for (size_t i = 0; i < plots.size(); ++i) svg += PlotToSvg(plots[i], kHeight * static_cast<double>(i));
  return svg + "</svg>\n";
}

}  // namespace tunefarm::cli
