#include "client/cli/studies/chart_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "client/cli/output.h"
#include "client/cli/studies/chart_axis.h"

namespace tunefarm::cli {
namespace {

using Kind = ChartSeries::Kind;

// In pixels.
constexpr double kOnePanelWidth = 520, kPanelWidth = 400, kPanelGap = 30;
constexpr double kPanelHeight = 236, kLeft = 74, kTitle = 36, kSubtitle = 18, kBottom = 52;
constexpr double kMarkRow = 11;
constexpr double kLegendRow = 18, kLegendSwatch = 38, kLegendWidthMin = 170, kLegendWidthMax = 330;
constexpr double kCharacter = 6.6;  // of text, on average
constexpr size_t kFinePointsMax = 5000;
// Distinguishable without colour vision, on white.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
constexpr const char* kPointColour = "#777777";
constexpr const char* kDashes[] = {"7 4", "2 3", "10 3 2 3"};

// Text as XML may hold it.
std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out;
}

std::string Coordinate(double value) { return fmt::format("{:.1f}", value); }

// How the i-th series of a panel looks.
struct Look {
  const char* colour = kPointColour;
  const char* dash = kDashes[0];
  double mark_row = 0;  // from the upper edge
  bool is_on = true;    // false: a level that is not on the axis
};

std::vector<Look> LooksOf(const ChartPanel& panel) {
  std::vector<Look> looks;
  size_t colour = 0, dash = 0;
  double row = 0;
  for (const ChartSeries& series : panel.series) {
    Look look;
    if (series.kind != Kind::kPoints) look.colour = kColours[colour++ % std::size(kColours)];
    if (series.kind == Kind::kLevel) look.dash = kDashes[dash++ % std::size(kDashes)];
    if (series.kind == Kind::kMarks) look.mark_row = kMarkRow * row++;
    looks.push_back(look);
  }
  return looks;
}

double MarkRows(const Chart& chart) {
  if (chart.panels.empty()) return 0;
  const auto& series = chart.panels[0].series;
  return static_cast<double>(
      std::count_if(series.begin(), series.end(), [](const ChartSeries& s) { return s.kind == Kind::kMarks; }));
}

double LegendWidth(const Chart& chart) {
  size_t longest = 0;
  if (!chart.panels.empty()) {
    for (const ChartSeries& series : chart.panels[0].series) longest = std::max(longest, TextWidth(series.name));
  }
  return std::clamp(kLegendSwatch + 12 + kCharacter * static_cast<double>(longest), kLegendWidthMin, kLegendWidthMax);
}

double PanelWidth(const Chart& chart) { return chart.panels.size() > 1 ? kPanelWidth : kOnePanelWidth; }

double ChartWidth(const Chart& chart) {
  const double panels = std::max(1.0, static_cast<double>(chart.panels.size()));
  return kLeft + panels * PanelWidth(chart) + (panels - 1) * kPanelGap + LegendWidth(chart);
}

// Of the plot itself: room for the legend beside it.
double PlotHeight(const Chart& chart) {
  const size_t names = chart.panels.empty() ? 0 : chart.panels[0].series.size();
  return std::max(kPanelHeight, kLegendRow * static_cast<double>(names) - kMarkRow * MarkRows(chart));
}

double ChartHeight(const Chart& chart) {
  return kTitle + (chart.subtitle.empty() ? 0 : kSubtitle) + kMarkRow * MarkRows(chart) + PlotHeight(chart) + kBottom;
}

class Drawing {
 public:
  Drawing(const Chart& chart, double top) : chart_(chart), y_(chart.y.is_log) {
    marks_top_ = top + kTitle + (chart.subtitle.empty() ? 0 : kSubtitle);
    const double plot_top = marks_top_ + kMarkRow * MarkRows(chart);
    bool has_points = false;
    for (const ChartPanel& panel : chart.panels) {
      for (const ChartSeries& series : panel.series) {
        has_points = has_points || series.kind == Kind::kPoints;
        if (series.kind == Kind::kLevel) continue;
        for (const std::vector<double>* values : {&series.y, &series.y_low, &series.y_high}) {
          for (const double value : *values) y_.Cover(value);
        }
      }
    }
    if (!chart.panels.empty()) {
      looks_ = LooksOf(chart.panels[0]);
      for (size_t i = 0; i < looks_.size(); ++i) {
        const ChartSeries& series = chart.panels[0].series[i];
        if (series.kind == Kind::kLevel) looks_[i].is_on = y_.CoverIfNear(series.y[0]);
      }
    }
    y_.Settle(has_points ? 0.04 : 0, plot_top + PlotHeight(chart), plot_top);
    svg_ = fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" font-weight=\"bold\">{}</text>\n", kLeft, top + 22,
                       Escaped(chart.title));
    if (!chart.subtitle.empty())
      svg_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", kLeft, top + 40, Escaped(chart.subtitle));
  }

  std::string Draw() {
    for (size_t i = 0; i < chart_.panels.size(); ++i) {
      DrawPanel(chart_.panels[i], kLeft + static_cast<double>(i) * (PanelWidth(chart_) + kPanelGap), i == 0);
    }
    svg_ += fmt::format("<text transform=\"translate({:.0f},{:.0f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                        kLeft - 56, (y_.from() + y_.to()) / 2, Escaped(chart_.y.label));
    if (!chart_.panels.empty()) DrawLegend(chart_.panels[0]);
    return std::move(svg_);
  }

 private:
  void DrawPanel(const ChartPanel& panel, double left, bool is_first) {
    AxisScale x(panel.x.is_log);
    for (const ChartSeries& series : panel.series) {
      if (series.kind == Kind::kLevel) continue;
      for (const double value : series.x) x.Cover(value);
    }
    x.Settle(0, left, left + PanelWidth(chart_));
    for (const double tick : x.Ticks()) {
      svg_ += fmt::format(
          "<line x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#dddddd\"/>"
          "<text x=\"{0}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
          Coordinate(x.At(tick)), Coordinate(y_.from()), Coordinate(y_.to()), Coordinate(y_.from() + 16),
          TickText(tick));
    }
    for (const double tick : y_.Ticks()) {
      svg_ += fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\" stroke=\"#dddddd\"/>", Coordinate(left),
                          Coordinate(x.to()), Coordinate(y_.At(tick)));
      if (is_first) {
        svg_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", Coordinate(left - 6),
                            Coordinate(y_.At(tick) + 4), TickText(tick));
      }
      svg_ += "\n";
    }
    svg_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n", (x.from() + x.to()) / 2,
                        y_.from() + 36, Escaped(panel.x.label));
    for (size_t i = 0; i < panel.series.size() && i < looks_.size(); ++i) DrawSeries(panel.series[i], looks_[i], x);
  }

  void DrawSeries(const ChartSeries& series, const Look& look, const AxisScale& x) {
    switch (series.kind) {
      case Kind::kLine:
        if (!series.y_low.empty()) DrawBand(series, look, x);
        svg_ += Polyline(Path(series.x, series.y, x, /*is_stepped=*/false), look.colour);
        break;
      case Kind::kSteps:
        svg_ += Polyline(Path(series.x, series.y, x, /*is_stepped=*/true), look.colour);
        break;
      case Kind::kPoints:
        DrawPoints(series, look, x);
        break;
      case Kind::kLevel:
        if (!look.is_on) break;
        svg_ += fmt::format(
            "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\" stroke=\"{3}\" stroke-width=\"1.5\" "
            "stroke-dasharray=\"{4}\"/>\n",
            Coordinate(x.from()), Coordinate(x.to()), Coordinate(y_.At(series.y[0])), look.colour, look.dash);
        break;
      case Kind::kMarks:
        DrawMarks(series, look, x);
        break;
    }
  }

  void DrawBand(const ChartSeries& series, const Look& look, const AxisScale& x) {
    std::vector<double> back(series.x.rbegin(), series.x.rend());
    std::vector<double> high(series.y_high.rbegin(), series.y_high.rend());
    svg_ += fmt::format("<polygon points=\"{} {}\" fill=\"{}\" fill-opacity=\"0.15\"/>\n",
                        Path(series.x, series.y_low, x, false), Path(back, high, x, false), look.colour);
  }

  void DrawPoints(const ChartSeries& series, const Look& look, const AxisScale& x) {
    const double grid = series.x.size() > kFinePointsMax ? 1 : 0.5;
    std::set<std::pair<int, int>> cells;
    for (size_t i = 0; i < series.x.size() && i < series.y.size(); ++i) {
      if (!x.IsOn(series.x[i]) || !y_.IsOn(series.y[i])) continue;
      cells.emplace(static_cast<int>(std::lround(x.At(series.x[i]) / grid)),
                    static_cast<int>(std::lround(y_.At(series.y[i]) / grid)));
    }
    std::string path;
    for (const auto& [column, row] : cells) path += fmt::format("M{:.6g} {:.6g}h0", column * grid, row * grid);
    if (path.empty()) return;
    svg_ += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"4\" stroke-linecap=\"round\" "
        "stroke-opacity=\"0.45\"/>\n",
        path, look.colour);
  }

  void DrawMarks(const ChartSeries& series, const Look& look, const AxisScale& x) {
    std::set<int> columns;
    for (const double value : series.x) {
      if (x.IsOn(value)) columns.insert(static_cast<int>(std::lround(x.At(value))));
    }
    std::string path;
    for (const int column : columns) path += fmt::format("M{} {:.6g}v7", column, marks_top_ + look.mark_row);
    if (path.empty()) return;
    svg_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, look.colour);
  }

  void DrawLegend(const ChartPanel& panel) {
    const double left = ChartWidth(chart_) - LegendWidth(chart_) + 12;
    const auto letters = static_cast<size_t>((LegendWidth(chart_) - kLegendSwatch - 12) / kCharacter) + 1;
    for (size_t i = 0; i < panel.series.size(); ++i) {
      const Look& look = looks_[i];
      const double line = marks_top_ + 8 + kLegendRow * static_cast<double>(i);
      const std::string at = fmt::format("x1=\"{0:.0f}\" x2=\"{1:.0f}\" y1=\"{2:.0f}\" y2=\"{2:.0f}\" stroke=\"{3}\"",
                                         left, left + 20, line, look.colour);
      switch (panel.series[i].kind) {
        case Kind::kLine:
        case Kind::kSteps:
          svg_ += fmt::format("<line {} stroke-width=\"3\"/>", at);
          break;
        case Kind::kLevel:
          svg_ += fmt::format("<line {} stroke-width=\"1.5\" stroke-dasharray=\"{}\"/>", at, look.dash);
          break;
        case Kind::kPoints:
          svg_ +=
              fmt::format("<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"3\" fill=\"{}\"/>", left + 10, line, look.colour);
          break;
        case Kind::kMarks:
          svg_ += fmt::format("<path d=\"M{:.0f} {:.1f}v7\" stroke=\"{}\" stroke-width=\"1.5\"/>", left + 10,
                              line - 3.5, look.colour);
          break;
      }
      // A level that would push the data aside is only named.
      const char* const place = look.is_on ? "" : panel.series[i].y[0] < y_.low() ? " (below)" : " (above)";
      const std::string name = CutTo(letters, panel.series[i].name) + place;
      svg_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", left + 26, line + 4, Escaped(name));
    }
  }

  std::string Path(const std::vector<double>& xs, const std::vector<double>& ys, const AxisScale& x,
                   bool is_stepped) const {
    std::string points, before;
    for (size_t i = 0; i < xs.size() && i < ys.size(); ++i) {
      if (!x.CanShow(xs[i]) || !y_.CanShow(ys[i])) continue;
      const std::string column = Coordinate(x.At(xs[i])), row = Coordinate(y_.At(ys[i]));
      if (is_stepped && !before.empty() && before != row) points += " " + column + "," + before;
      points += (points.empty() ? "" : " ") + column + "," + row;
      before = row;
    }
    return points;
  }

  static std::string Polyline(const std::string& points, const char* colour) {
    return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points, colour);
  }

  const Chart& chart_;
  AxisScale y_;
  std::vector<Look> looks_;
  double marks_top_ = 0;
  std::string svg_;
};

}  // namespace

std::string ChartsToSvg(const std::vector<Chart>& charts) {
  double width = kLeft + kOnePanelWidth + kLegendWidthMin, height = 0;
  for (const Chart& chart : charts) {
    width = std::max(width, ChartWidth(chart));
    height += ChartHeight(chart);
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  double top = 0;
  for (const Chart& chart : charts) {
    svg += Drawing(chart, top).Draw();
    top += ChartHeight(chart);
  }
  return svg + "</svg>\n";
}

}  // namespace tunefarm::cli
