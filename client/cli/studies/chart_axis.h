// One axis of a chart: what it covers, where a value lies on the picture, and where ticks stand.
#pragma once

#include <string>
#include <vector>

namespace tunefarm::cli {

class AxisScale {
 public:
  explicit AxisScale(bool is_log) : is_log_(is_log) {}

  bool CanShow(double value) const;
  void Cover(double value);
  // As Cover, but only where it does not push what is covered aside. Returns whether the value is now on the axis.
  bool CoverIfNear(double value);
  // After the last Cover: with `padding` as a share of the length at both ends, on the picture from `from` to `to`.
  void Settle(double padding, double from, double to);

  // Settled from here on.
  double At(double value) const;
  bool IsOn(double value) const { return CanShow(value) && value >= low_ && value <= high_; }
  double low() const { return low_; }
  double high() const { return high_; }
  double from() const { return from_; }
  double to() const { return to_; }
  // At most about seven: round numbers on a linear axis; on a logarithmic one powers of ten, with 2 and 5 times them
  // where there are few, and round numbers where there is less than a decade.
  std::vector<double> Ticks() const;

 private:
  bool is_empty() const { return !(low_ <= high_); }

  bool is_log_;
  double low_ = 1, high_ = 0;  // empty
  double from_ = 0, to_ = 1;
};

// "0.5", "1,000,000".
std::string TickText(double value);

}  // namespace tunefarm::cli
