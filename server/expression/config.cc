#include "server/expression/config.h"

#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr size_t kConfigTextMax = 64 * 1024;

void AppendEscaped(std::string_view text, std::string* out) {
  for (const char c : text) {
    if (c == '\n') {
      *out += "\\n";
      continue;
    }
    if (c == ',' || c == '=' || c == '\\') *out += '\\';
    *out += c;
  }
}

// Reads up to an unescaped `stop` or ',' or the end; `*position` is left on the delimiter.
absl::StatusOr<std::string> ReadEscaped(std::string_view text, bool stop_at_equals, size_t* position) {
  std::string out;
  while (*position < text.size()) {
    const char c = text[*position];
    if (c == ',' || (c == '=' && stop_at_equals)) break;
    if (c == '=') {
      return InvalidArgument("config text has a second '=' at column {}; write \\= inside a string", *position + 1);
    }
    ++*position;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (*position == text.size()) return InvalidArgument("config text ends in a lone '\\' at column {}", *position);
    const char escaped = text[(*position)++];
    if (escaped != 'n' && escaped != ',' && escaped != '=' && escaped != '\\') {
      return InvalidArgument("config text has an unknown escape '\\{}' at column {}; known are \\, \\= \\\\ and \\n",
                             escaped, *position - 1);
    }
    out += escaped == 'n' ? '\n' : escaped;
  }
  return out;
}

absl::StatusOr<Config> Parse(std::string_view text, const ValueTypeMap* types) {
  if (text.size() > kConfigTextMax) {
    return InvalidArgument("config text has {} bytes; at most {} are read", text.size(), kConfigTextMax);
  }
  Config config;
  size_t position = 0;
  while (position < text.size()) {
    const size_t start = position;
    ASSIGN_OR_RETURN(const std::string name, ReadEscaped(text, /*stop_at_equals=*/true, &position));
    if (name.empty()) return InvalidArgument("config text lacks a name at column {}; write NAME=VALUE,...", start + 1);
    if (position == text.size() || text[position] != '=') {
      return InvalidArgument("config text lacks '=' after '{}' at column {}; write NAME=VALUE,...", name, position + 1);
    }
    ++position;
    ASSIGN_OR_RETURN(const std::string value_text, ReadEscaped(text, /*stop_at_equals=*/false, &position));
    if (config.Find(name) != nullptr) return InvalidArgument("config text names '{}' twice", name);
    if (types == nullptr) {
      config.Set(name, Value::Infer(value_text));
    } else {
      const auto type = types->find(name);
      if (type == types->end()) return InvalidArgument("config text has the unknown name '{}'", name);
      auto value = Value::FromText(type->second, value_text);
      if (!value.ok()) return Annotate(value.status(), "value of '{}'", name);
      config.Set(name, *std::move(value));
    }
    if (position < text.size() && ++position == text.size()) {
      return InvalidArgument("config text ends in ','; write NAME=VALUE,...");
    }
  }
  return config;
}

}  // namespace

const Value* Config::Find(std::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

std::string Config::ToText() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    if (!text.empty()) text += ',';
    AppendEscaped(name, &text);
    text += '=';
    AppendEscaped(value.ToText(), &text);
  }
  return text;
}

absl::StatusOr<Config> Config::FromText(std::string_view text) { return Parse(text, nullptr); }

absl::StatusOr<Config> Config::FromText(std::string_view text, const ValueTypeMap& types) {
  return Parse(text, &types);
}

uint64_t Config::Hash() const { return Xxh3(ToText()); }

}  // namespace tunefarm
