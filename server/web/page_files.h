// PageFiles: the files of the dashboard's page, compressed once.
//
// Threads: all methods from any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_server.h"

namespace tunefarm {

struct PageFile {
  std::string_view path;  // "index.html"
  std::string_view content_type;
  std::string_view bytes;
};

class PageFiles {
 public:
  // What the views point to outlives it.
  explicit PageFiles(const std::vector<PageFile>& files);

  // "/" is index.html. 404 for a path without a file, 405 for another method than GET and HEAD, 304 for a browser that
  // has the file.
  HttpAnswer Answer(const HttpRequest& request) const;

 private:
  struct File {
    std::string content_type;
    std::string_view bytes;
    std::string packed;
    std::string tag;
  };
  std::map<std::string, File, std::less<>> files_;  // by "/path"
};

}  // namespace tunefarm
