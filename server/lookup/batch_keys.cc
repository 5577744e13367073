#include "server/lookup/batch_keys.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace tunefarm {
namespace {

constexpr size_t kIntBytesMax = 20;  // of a number's digits, and its sign

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
  key_.resize(KeyBytesMax());
  // Pins and seeds are in the key too, but a batch has none.
  works_ = used == columns.size() && Key(0) == first.key;
}

size_t BatchKeys::KeyBytesMax() const {
  size_t bytes = 0;
  for (const Piece& piece : pieces_) {
    size_t longest = kIntBytesMax;
    for (const std::string& text : piece.strings) longest = std::max(longest, text.size());
    bytes += piece.before.size() + longest;
  }
  return bytes;
}

std::string_view BatchKeys::Key(int row) {
  char* at = key_.data();
  for (const Piece& piece : pieces_) {
    at = std::copy_n(piece.before.data(), piece.before.size(), at);
    if (piece.column == nullptr) break;
    if (piece.strings.empty()) {
      at = std::to_chars(at, at + kIntBytesMax, piece.column->ints(row)).ptr;
    } else {
      const std::string& text = piece.strings[piece.column->string_indexes(row)];
      at = std::copy_n(text.data(), text.size(), at);
    }
  }
  return {key_.data(), static_cast<size_t>(at - key_.data())};
}

}  // namespace tunefarm
