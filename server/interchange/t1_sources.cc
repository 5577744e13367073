#include "server/interchange/t1_sources.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::interchange {
namespace {

constexpr size_t kSourcesMax = 60;
constexpr size_t kBytesMax = size_t{8} << 20;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// "a/./b/../c.h" as "a/c.h"; empty for what leaves the folder.
std::string Plain(const std::string& path) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (start <= path.size()) {
    const size_t slash = std::min(path.find('/', start), path.size());
    const std::string part = path.substr(start, slash - start);
    start = slash + 1;
    if (part == "..") {
      if (parts.empty()) return "";
      parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
  }
  std::string plain;
  for (const std::string& part : parts) plain += (plain.empty() ? "" : "/") + part;
  return plain;
}

// The files that a source includes in quotes.
std::vector<std::string> IncludesOf(std::string_view text) {
  std::vector<std::string> includes;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const auto skip = [&line] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
    skip();
    if (line.empty() || line[0] != '#') continue;
    line.remove_prefix(1);
    skip();
    if (line.substr(0, 7) != "include") continue;
    line.remove_prefix(7);
    skip();
    if (line.empty() || line[0] != '"') continue;
    line.remove_prefix(1);
    if (const size_t quote = line.find('"'); quote != std::string_view::npos)
      includes.emplace_back(line.substr(0, quote));
  }
  return includes;
}

class Collector {
 public:
  Collector(std::string folder, const ReadSource& read_source)
      : folder_(std::move(folder)), read_source_(read_source) {}

  // `path` is relative to the folder of the main file.
  absl::Status Add(const std::string& path, bool is_required) {
    if (path.empty() || !seen_.insert(path).second) return absl::OkStatus();
    absl::StatusOr<std::string> content = read_source_(folder_ + path);
    if (!content.ok()) return is_required ? content.status() : absl::OkStatus();
    total_ += content->size();
    if (sources.size() >= kSourcesMax || total_ > kBytesMax) {
      return InvalidArgument("the sources are more than {} files or {} bytes", kSourcesMax, kBytesMax);
    }
    if (content->empty()) return is_required ? InvalidArgument("the source '{}' is empty", path) : absl::OkStatus();
    const std::vector<std::string> includes = IncludesOf(*content);
    tunefarm::v1::SourceFile source;
    source.set_path(path);
    source.set_content(*std::move(content));
    sources.push_back(std::move(source));
    for (const std::string& include : includes) RETURN_IF_ERROR(Add(Plain(FolderOf(path) + include), false));
    return absl::OkStatus();
  }

  std::vector<tunefarm::v1::SourceFile> sources;

 private:
  const std::string folder_;
  const ReadSource& read_source_;
  std::set<std::string> seen_;
  size_t total_ = 0;
};

std::string FunctionText(const ElementFunction& function, bool is_cuda) {
  if (is_cuda) {
    return fmt::format(
        "\nextern \"C\" __global__ void {0}({1}* tunefarm_data, long long tunefarm_n) {{\n"
        "  for (long long tunefarm_k = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; tunefarm_k < "
        "tunefarm_n;\n"
        "       tunefarm_k += static_cast<long long>(gridDim.x) * blockDim.x) {{\n"
        "    const double {3} = static_cast<double>(tunefarm_k);\n"
        "    (void){3};\n"
        "    tunefarm_data[tunefarm_k] = static_cast<{1}>({2});\n"
        "  }}\n"
        "}}\n",
        function.entry, function.element_type, function.value, kElementIndex);
  }
  return fmt::format(
      "\nextern \"C\" void {0}({1}* tunefarm_data, long long tunefarm_n) {{\n"
      "  for (long long tunefarm_k = 0; tunefarm_k < tunefarm_n; ++tunefarm_k) {{\n"
      "    const double {3} = static_cast<double>(tunefarm_k);\n"
      "    (void){3};\n"
      "    tunefarm_data[tunefarm_k] = static_cast<{1}>({2});\n"
      "  }}\n"
      "}}\n",
      function.entry, function.element_type, function.value, kElementIndex);
}

}  // namespace

absl::StatusOr<std::vector<tunefarm::v1::SourceFile>> CollectSources(const std::string& main_file,
                                                                     const std::string& reference_file,
                                                                     const std::vector<ElementFunction>& functions,
                                                                     bool is_cuda, const ReadSource& read_source) {
  const std::string folder = FolderOf(main_file);
  const std::string main_name = main_file.substr(folder.size());
  Collector collector(folder, read_source);
  RETURN_IF_ERROR(collector.Add(main_name, true));
  std::string reference_name;
  if (!reference_file.empty()) {
    // Beside the kernel's file, where a plain name is not in doubt.
    if (reference_file.compare(0, folder.size(), folder) != 0) {
      return InvalidArgument("the reference '{}' must lie in or below the folder of '{}'", reference_file, main_file);
    }
    reference_name = Plain(reference_file.substr(folder.size()));
    RETURN_IF_ERROR(collector.Add(reference_name, true));
  }
  if (functions.empty() && reference_name.empty()) return std::move(collector.sources);
  std::string text = fmt::format(
      "// Made by tunefarm import around {}: what fills inputs and computes expected outputs.\n", main_name);
  if (!is_cuda && !functions.empty()) text += "#include <math.h>\n\n";
  text += fmt::format("#include \"{}\"\n", main_name);
  if (!reference_name.empty() && reference_name != main_name) text += fmt::format("#include \"{}\"\n", reference_name);
  for (const ElementFunction& function : functions) text += FunctionText(function, is_cuda);
  std::string name = is_cuda ? "imported.cu" : "imported.cc";
  while (std::any_of(collector.sources.begin(), collector.sources.end(),
                     [&](const auto& source) { return source.path() == name; })) {
    name = "t1_" + name;
  }
  tunefarm::v1::SourceFile wrapper;
  wrapper.set_path(name);
  wrapper.set_content(text);
  collector.sources.insert(collector.sources.begin(), std::move(wrapper));
  return std::move(collector.sources);
}

}  // namespace tunefarm::interchange
