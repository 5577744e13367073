#include "server/store/page_token.h"

#include <algorithm>

#include "server/base/hash.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr size_t kTokenBytesMax = 256;
constexpr size_t kWordBytes = 8;

void AppendWord(uint64_t word, std::string* bytes) {
  for (size_t i = 0; i < kWordBytes; ++i) bytes->push_back(static_cast<char>(word >> (8 * i) & 0xff));
}

uint64_t WordAt(std::string_view bytes, size_t index) {
  uint64_t word = 0;
  for (size_t i = 0; i < kWordBytes; ++i) {
    word |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[index * kWordBytes + i])) << (8 * i);
  }
  return word;
}

std::string Base64Url(std::string_view bytes) {
  std::string text;
  uint32_t bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text.push_back(kAlphabet[bits >> (count - 6) & 63]);
  }
  if (count > 0) text.push_back(kAlphabet[bits << (6 - count) & 63]);
  return text;
}

std::optional<std::string> FromBase64Url(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const size_t digit = kAlphabet.find(letter);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return bytes;
}

// Query hash and key; the token is these bytes behind a hash of them.
std::string Content(std::string_view query, const std::vector<int64_t>& key) {
  std::string content;
  AppendWord(Xxh3(query), &content);
  for (const int64_t number : key) AppendWord(static_cast<uint64_t>(number), &content);
  return content;
}

}  // namespace

int EffectivePageSize(int page_size) { return page_size <= 0 ? kPageSizeDefault : std::min(page_size, kPageSizeMax); }

std::string EncodePageToken(std::string_view query, const std::vector<int64_t>& key) {
  const std::string content = Content(query, key);
  std::string bytes;
  AppendWord(Xxh3(content), &bytes);
  return Base64Url(bytes + content);
}

absl::StatusOr<std::optional<std::vector<int64_t>>> DecodePageToken(std::string_view query, std::string_view token,
                                                                    size_t size) {
  if (token.empty()) return std::optional<std::vector<int64_t>>();
  const absl::Status invalid = WithReason(
      InvalidArgument("page_token \"{}\" does not belong to this query; leave it empty to start from the first page",
                      token.substr(0, kTokenBytesMax)),
      "PAGE_TOKEN_INVALID");
  if (token.size() > kTokenBytesMax) return invalid;
  const std::optional<std::string> bytes = FromBase64Url(token);
  if (!bytes.has_value() || bytes->size() != (2 + size) * kWordBytes) return invalid;
  std::vector<int64_t> key;
  for (size_t i = 0; i < size; ++i) key.push_back(static_cast<int64_t>(WordAt(*bytes, 2 + i)));
  // One spelling only: it also refuses spare bits and another query's hash.
  if (EncodePageToken(query, key) != token) return invalid;
  return std::optional(std::move(key));
}

}  // namespace tunefarm
