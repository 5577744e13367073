#include "server/worker/verify/expected_file.h"

#include "server/base/hash.h"

namespace tunefarm {
namespace {

constexpr std::string_view kMagic = "TFEXPCT1";
constexpr uint64_t kBlocksMax = 4096;

void AppendWord(uint64_t value, std::string* out) {
  for (int i = 0; i < 8; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// Takes a word, or as many bytes, off the front. False if there are too few.
bool TakeBytes(std::string_view* rest, uint64_t bytes, std::string_view* taken) {
  if (rest->size() < bytes) return false;
  *taken = rest->substr(0, bytes);
  rest->remove_prefix(bytes);
  return true;
}
bool TakeWord(std::string_view* rest, uint64_t* value) {
  std::string_view bytes;
  if (!TakeBytes(rest, 8, &bytes)) return false;
  *value = 0;
  for (size_t i = 0; i < 8; ++i) *value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return true;
}

}  // namespace

std::string PackExpected(std::string_view key, const std::vector<std::string>& blocks) {
  std::string file(kMagic);
  AppendWord(0, &file);
  const size_t content = file.size();
  AppendWord(key.size(), &file);
  file += key;
  AppendWord(blocks.size(), &file);
  for (const std::string& block : blocks) AppendWord(block.size(), &file);
  for (const std::string& block : blocks) file += block;
  std::string checksum;
  AppendWord(Xxh3(std::string_view(file).substr(content)), &checksum);
  file.replace(kMagic.size(), checksum.size(), checksum);
  return file;
}

std::optional<std::vector<std::string_view>> UnpackExpected(std::string_view file, std::string_view key) {
  std::string_view magic, its_key;
  uint64_t checksum = 0, key_bytes = 0, count = 0;
  if (!TakeBytes(&file, kMagic.size(), &magic) || magic != kMagic || !TakeWord(&file, &checksum)) return std::nullopt;
  if (Xxh3(file) != checksum) return std::nullopt;
  if (!TakeWord(&file, &key_bytes) || !TakeBytes(&file, key_bytes, &its_key) || its_key != key) return std::nullopt;
  if (!TakeWord(&file, &count) || count > kBlocksMax) return std::nullopt;
  std::vector<uint64_t> lengths(count);
  for (uint64_t& length : lengths) {
    if (!TakeWord(&file, &length)) return std::nullopt;
  }
  std::vector<std::string_view> blocks(count);
  for (size_t i = 0; i < count; ++i) {
    if (!TakeBytes(&file, lengths[i], &blocks[i])) return std::nullopt;
  }
  if (!file.empty()) return std::nullopt;
  return blocks;
}

}  // namespace tunefarm
