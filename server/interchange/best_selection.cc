#include "server/interchange/best_selection.h"

#include <algorithm>
#include <cctype>

namespace tunefarm::interchange {
namespace {

std::string Lowered(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lowered;
}

}  // namespace

bool IsDeviceNamed(std::string_view wanted, std::string_view class_id, std::string_view class_name) {
  if (wanted.empty() || wanted == class_id) return true;
  return (" " + Lowered(class_name) + " ").find(" " + Lowered(wanted) + " ") != std::string::npos;
}

void DimFilter::Add(const std::string& dim, const std::string& value) {
  values_[dim].insert({value, Value::Infer(value).ToText()});
}

bool DimFilter::Takes(const Config& dims) const {
  return std::all_of(values_.begin(), values_.end(), [&](const auto& wanted) {
    const Value* const value = dims.Find(wanted.first);
    return value != nullptr && wanted.second.count(value->ToText()) > 0;
  });
}

}  // namespace tunefarm::interchange
