#include "server/web/page_files.h"

#include <fmt/core.h>

#include <utility>

#include "server/base/hash.h"
#include "server/web/connect_json.h"
#include "server/web/web_answer.h"

namespace tunefarm {
namespace {

constexpr int kBestLevel = 9;

}  // namespace

PageFiles::PageFiles(const std::vector<PageFile>& files) {
  for (const PageFile& file : files) {
    File kept;
    kept.content_type = file.content_type;
    kept.bytes = file.bytes;
    kept.packed = Gzip(file.bytes, kBestLevel);
    kept.tag = fmt::format("\"{}\"", Sha256(file.bytes).Hex().substr(0, 32));
    files_.emplace(fmt::format("/{}", file.path), std::move(kept));
  }
}

HttpAnswer PageFiles::Answer(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    return {405, "the page is read with GET or HEAD\n", "text/plain; charset=utf-8", {{"Allow", "GET, HEAD"}}};
  }
  if (files_.empty()) {
    return {404,
            "this daemon was built without the dashboard's page (npm was missing); its API is served below api/\n"};
  }
  const auto file = files_.find(request.path == "/" ? "/index.html" : request.path);
  if (file == files_.end()) return {404, "there is no such page\n"};
  HttpAnswer answer;
  answer.content_type = file->second.content_type;
  answer.headers = {{"ETag", file->second.tag}, {"Vary", "Accept-Encoding"}};
  if (request.Header("if-none-match").find(file->second.tag) != std::string::npos) {
    answer.status = 304;
  } else if (TakesGzip(request) && !file->second.packed.empty()) {
    answer.body = file->second.packed;
    answer.headers.emplace_back("Content-Encoding", "gzip");
  } else {
    answer.body = file->second.bytes;
  }
  return answer;
}

}  // namespace tunefarm
