#pragma once

#include <string_view>
#include <vector>

namespace tunefarm {

// One of the files of the dashboard's page. Read-only, and alive for the whole program.
struct WebFile {
  std::string_view path;  // "index.html", without a folder.
  std::string_view content_type;
  std::string_view bytes;
};

// index.html and what it loads; none in a program that was built without the page. Any thread may call it, but no
// global's constructor.
const std::vector<WebFile>& WebFiles();

}  // namespace tunefarm
