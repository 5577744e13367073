#include "client/web/page.h"

#include <cstddef>

#include "server/base/embedded_file.h"

namespace tunefarm {

extern const EmbeddedFile kWebPage[];
extern const size_t kWebPageCount;

namespace {

std::string_view ContentType(std::string_view path) {
  if (path.ends_with(".html")) return "text/html; charset=utf-8";
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/javascript; charset=utf-8";
}

std::vector<WebFile> NonEmptyFiles() {
  std::vector<WebFile> files;
  for (size_t i = 0; i < kWebPageCount; ++i) {
    const EmbeddedFile& file = kWebPage[i];
    if (!file.bytes.empty()) files.push_back({file.name, ContentType(file.name), file.bytes});
  }
  return files;
}

}  // namespace

const std::vector<WebFile>& WebFiles() {
  static const auto& files = *new std::vector<WebFile>(NonEmptyFiles());
  return files;
}

}  // namespace tunefarm
