// A fuzz target of files without libFuzzer: the files of a folder, damaged with what such files are made of. For how
// long: fuzz_run.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "server/base/file.h"
#include "server/base/random.h"
#include "tests/fakes/gzip.h"
#include "tests/fuzz/fuzz_run.h"

namespace tunefarm {
namespace {

class FileMaker {
 public:
  FileMaker(uint64_t seed, std::vector<std::string> files) : random_(seed), files_(std::move(files)) {}

  std::string Next() {
    std::string text = files_[random_.UniformInt(files_.size())];
    for (uint64_t damages = random_.UniformInt(5); damages-- > 0;) Damage(&text);
    if (random_.UniformInt(8) != 0) return text;
    text = Gzip(text);
    for (uint64_t damages = random_.UniformInt(3); damages-- > 0;) Damage(&text);
    return text;
  }

 private:
  const char* Token() {
    static constexpr const char* kTokens[] = {
        // JSON
        "{", "}", "[", "]", ",", ":", "\"", "null", "true", "0", "1", "-1", "0.5", "1e308", "1e999",
        "9223372036854775807", "-9223372036854775808", "18446744073709551616", "\"\"", "\"x\"", "\\u0000", "\\", "NaN",
        "-Infinity", "1e20", "{}", "[]",
        // words
        "\"compile\"", "\"correct\"", "\"RuntimeFailedConfig\"", "\"__error__\": ", "\"GFLOP/s\"", "\"energy\"",
        "\"s\"", "\"ns\"", "\xff", "\n"};
    return kTokens[random_.UniformInt(std::size(kTokens))];
  }

  // The place of some value: behind a colon or a comma.
  size_t ValueIn(const std::string& text) {
    const size_t at = random_.UniformInt(text.size() + 1);
    const size_t found = text.find_first_of(":,[\"", at);
    return found == std::string::npos ? at : found + 1;
  }

  void Damage(std::string* text) {
    const size_t at = ValueIn(*text);
    switch (random_.UniformInt(7)) {
      case 0:
        text->insert(at, Token());
        break;
      case 1:
        text->erase(at, 1 + random_.UniformInt(8));
        break;
      case 2: {
        // A whole value by another.
        const size_t end = std::min(text->find_first_of(",]}\"", at), text->size());
        text->replace(at, end - at, Token());
        break;
      }
      case 3: {
        const size_t from = ValueIn(*text);
        text->insert(at, text->substr(from, random_.UniformInt(60)));
        break;
      }
      case 4:
        if (at < text->size()) (*text)[at] = static_cast<char>(random_.UniformInt(256));
        break;
      case 5: {
        // A line twice, or not at all.
        const size_t start = text->rfind('\n', at) == std::string::npos ? 0 : text->rfind('\n', at);
        const size_t end = std::min(text->find('\n', at), text->size());
        if (end <= start) break;
        const std::string line = text->substr(start, end - start);
        if (random_.UniformInt(2) == 0) {
          text->insert(end, line);
        } else {
          text->erase(start, end - start);
        }
        break;
      }
      default:
        if (random_.UniformInt(4) == 0) text->resize(random_.UniformInt(text->size() + 1));
        break;
    }
  }

  PhiloxStream random_;
  const std::vector<std::string> files_;
};

TEST(FileFuzz, FindsNothing) {
  std::vector<std::string> files;
  const std::string folder = std::string(std::getenv("TUNEFARM_SOURCE_DIR")) + "/tests/data/" FUZZ_FOLDER;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) files.push_back(*ReadFile(path.string(), 1 << 20));
  ASSERT_FALSE(files.empty());
  FuzzRun run(600);
  FileMaker maker(run.seed(), std::move(files));
  while (run.GoesOn()) run.Try(maker.Next());
}

}  // namespace
}  // namespace tunefarm
