#include "server/lookup/batch_keys.h"

#include <fmt/format.h>

#include <map>

namespace tunefarm {
namespace {

// "NAME=" and "VALUE", as keys have them.
std::string NameText(const std::string& name) { return Config({{name, Value("")}}).ToText(); }
std::string ValueText(const Value& value) { return Config({{"", value}}).ToText().substr(1); }

}  // namespace

BatchKeys::BatchKeys(const tunefarm::v1::BatchLookupConfigsRequest& request, const ResolvedProblem& first) {
  std::map<std::string_view, const tunefarm::v1::DimColumn*> columns;
  for (const auto& column : request.columns()) {
    if (!columns.emplace(column.dim(), &column).second) return;
  }
  size_t used = 0;
  pieces_.emplace_back();
  for (const auto& [name, value] : first.dims) {
    if (name != first.dims.begin()->first) pieces_.back().before += ",";
    pieces_.back().before += NameText(name);
    const auto found = columns.find(name);
    if (found == columns.end()) {
      pieces_.back().before += ValueText(value);
      continue;
    }
    ++used;
    const tunefarm::v1::DimColumn& column = *found->second;
    if (column.ints_size() > 0 ? !value.is_int() : !value.is_string()) return;
    pieces_.back().column = &column;
    for (const std::string& text : column.strings()) pieces_.back().strings.push_back(ValueText(Value(text)));
    pieces_.emplace_back();
  }
  // Pins and seeds are in the key too, but a batch has none.
  works_ = used == columns.size() && Key(0) == first.key;
}

std::string_view BatchKeys::Key(int row) {
  key_.clear();
  for (const Piece& piece : pieces_) {
    key_ += piece.before;
    if (piece.column == nullptr) break;
    if (piece.strings.empty()) {
      const fmt::format_int digits(piece.column->ints(row));
      key_.append(digits.data(), digits.size());
    } else {
      key_ += piece.strings[piece.column->string_indexes(row)];
    }
  }
  return key_;
}

}  // namespace tunefarm
