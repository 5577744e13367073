// SketchTritonDefinition of definition_sketch.h.

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "client/cli/sketch/definition_sketch.h"
#include "client/cli/sketch/triton_signature.h"
#include "server/expression/expression.h"

namespace tunefarm::cli {
namespace {

// Whether a name has one of the words, in any case.
bool Has(const std::string& name, std::initializer_list<std::string_view> words) {
  const std::string upper = absl::AsciiStrToUpper(name);
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return upper.find(word) != std::string::npos; });
}

bool IsTileSize(const std::string& name) { return Has(name, {"BLOCK", "TILE"}); }
bool IsStride(const std::string& name) { return Has(name, {"STRIDE"}); }
bool IsFloat(const std::string& name) {
  return Has(name, {"EPS", "SCALE", "ALPHA", "BETA", "MOMENTUM", "SLOPE", "PROB", "DROPOUT"});
}
bool IsIndex(const std::string& name) { return Has(name, {"IDX", "INDEX", "INDICES", "_IDS", "OFFSETS", "LENS"}); }
bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class TritonSketcher {
 public:
  TritonSketcher(std::string name, std::string source_file, std::vector<TritonFunction> kernels)
      : name_(std::move(name)),
        source_file_(std::move(source_file)),
        kernels_(std::move(kernels)),
        kernel_(kernels_[0]) {}

  DefinitionSketch Run() {
    FindOutputs();
    ReadDims();
    ReadStrides();
    ReadConstexprs();
    const std::string launch = Launch();
    DefinitionSketch sketch;
    sketch.text = fmt::format(
        "# Made from the signature of {0} in {1}: a first guess, to be corrected where it says TODO.\n"
        "# Check it with:  tunefarm kernels check .        Tune it with:  tunefarm tune .\n"
        "# tunefarm help expressions explains what may stand in quotes.\n"
        "\n"
        "display_name: \"{2}\"\n"
        "language: TRITON\n"
        "# Modules beside it that it imports are further sources.\n"
        "sources {{ path: \"{1}\" }}\n"
        "\n"
        "# The problem, known when the kernel is launched.\n"
        "# TODO: the sizes that you use.\n"
        "{3}"
        "\n"
        "# The tunables: values of tl.constexpr parameters, and Triton's options.\n"
        "# TODO: the values that are worth trying.\n"
        "{4}"
        "{5}"
        "\n"
        "# The parameters that are not tl.constexpr. Inputs are filled with random numbers (fill {{ file: \"x.npy\" "
        "}}: yours).\n"
        "# TODO: data types, lengths in elements, access (IN, OUT, or INOUT for what is read too), and values.\n"
        "{6}"
        "\n"
        "# What is timed.\n"
        "# TODO: the grid as your program launches it, in programs.\n"
        "launches {{ {7} }}\n"
        "\n"
        "# Other configs must give what the default config gives.\n"
        "# TODO: where files hold the right outputs, name them:  reference {{ files {{ buffer: \"y\" file: \"y.npy\" "
        "}} }}\n"
        "reference {{ steps {{ {7} }} }}\n"
        "tolerance {{ atol: 1e-3 rtol: 1e-3 }}\n",
        kernel_.name, source_file_, name_, Dims(), tunables_, Properties(), Arguments(), launch);
    sketch.notes = std::move(notes_);
    sketch.notes.emplace_back("Data types, lengths, values and the grid are guesses: correct them where it says TODO.");
    sketch.notes.emplace_back("Outputs are compared with those of the default config.");
    std::vector<std::string> others;
    for (size_t i = 1; i < kernels_.size(); ++i) others.push_back(kernels_[i].name);
    if (!others.empty())
      sketch.notes.push_back(
          fmt::format("Other kernels of the source are left out: {}.", absl::StrJoin(others, ", ").substr(0, 200)));
    return sketch;
  }

 private:
  // Where nothing is seen to be written, the last buffer is.
  void FindOutputs() {
    std::vector<TritonParameter>& all = kernel_.parameters;
    if (std::any_of(all.begin(), all.end(), [](const TritonParameter& one) { return one.is_written; })) return;
    const auto last = std::find_if(all.rbegin(), all.rend(), [](const TritonParameter& one) { return one.is_pointer; });
    if (last == all.rend()) return;
    last->is_written = true;
    notes_.push_back(fmt::format("No store is seen: '{}' is taken for the output.", last->name));
  }

  void ReadDims() {
    for (const TritonParameter& parameter : kernel_.parameters) {
      if (parameter.is_constexpr || parameter.is_pointer || IsStride(parameter.name) || IsFloat(parameter.name))
        continue;
      if (IsName(parameter.name)) dims_.push_back(parameter.name);
    }
    if (dims_.empty()) dims_.emplace_back("N");
    taken_.insert(dims_.begin(), dims_.end());
    length_ = absl::StrJoin(dims_, " * ");
  }

  static bool IsName(const std::string& name) { return IsValidName(name) && name != "device" && name != "kernel"; }

  // Of a buffer a_ptr with stride_am and stride_ak, in dims M and K, in row-major order.
  void ReadStrides() {
    for (const TritonParameter& buffer : kernel_.parameters) {
      if (!buffer.is_pointer) continue;
      const std::string stem = absl::AsciiStrToUpper(buffer.name.substr(0, buffer.name.find("_ptr")));
      std::vector<std::pair<std::string, std::string>> found;  // stride and dim
      bool is_complete = true;
      for (const TritonParameter& stride : kernel_.parameters) {
        std::string rest = absl::AsciiStrToUpper(stride.name);
        if (!IsStride(stride.name) || rest.rfind("STRIDE_" + stem, 0) != 0) continue;
        rest = rest.substr(std::string_view("STRIDE_").size() + stem.size());
        if (rest.starts_with('_')) rest = rest.substr(1);
        const auto dim = std::find_if(dims_.begin(), dims_.end(),
                                      [&](const std::string& one) { return absl::AsciiStrToUpper(one) == rest; });
        is_complete = is_complete && dim != dims_.end();
        found.emplace_back(stride.name, dim == dims_.end() ? std::string() : *dim);
      }
      if (found.size() < 2 || !is_complete) continue;
      std::vector<std::string> inner;
      for (size_t i = found.size(); i > 0; --i) {
        strides_[found[i - 1].first] = inner.empty() ? "1" : absl::StrJoin(inner, " * ");
        inner.insert(inner.begin(), found[i - 1].second);
      }
      lengths_[buffer.name] = absl::StrJoin(inner, " * ");
    }
  }

  void ReadConstexprs() {
    int blocks = 0;
    for (const TritonParameter& parameter : kernel_.parameters)
      blocks += parameter.is_constexpr && IsTileSize(parameter.name);
    for (const TritonParameter& parameter : kernel_.parameters) {
      if (!parameter.is_constexpr) continue;
      const std::string& name = parameter.name;
      const std::string& value = parameter.default_text;
      if (IsTileSize(name)) {
        if (!AddTunable(name, blocks == 1            ? "powers_of_two { first: 128 last: 4096 } default_value: 1024"
                              : name.ends_with("_K") ? "powers_of_two { first: 16 last: 128 } default_value: 32"
                                                     : "powers_of_two { first: 16 last: 256 } default_value: 64"))
          continue;
        blocks_.push_back(name);
      } else if (Has(name, {"GROUP"})) {
        AddTunable(name, "values: [1, 4, 8] default_value: 8");
      } else if (name == "num_warps" || name == "num_stages") {
        continue;  // below
      } else if (value == "True" || value == "False") {
        AddProperty(name, value == "True" ? "true" : "false");
      } else if (IsNumber(value) && value.size() < 10) {
        AddProperty(name, value);
      } else if (!value.empty()) {
        notes_.push_back(fmt::format("'{}' has its default in the source: it is left out.", name));
      } else {
        AddProperty(name, Has(name, {"IS_", "HAS_", "USE_", "EVEN", "CAUSAL"}) ? "false" : "64");
      }
    }
    AddTunable("num_warps", "powers_of_two { first: 2 last: 8 } default_value: 4");
    AddTunable("num_stages", "range { first: 1 last: 4 } default_value: 3");
  }

  bool AddTunable(const std::string& name, std::string_view domain) {
    if (!IsName(name) || !taken_.insert(name).second) return false;
    tunables_ += fmt::format("parameters {{ name: \"{}\" {} }}\n", name, domain);
    return true;
  }

  void AddProperty(const std::string& name, std::string_view value) {
    if (IsName(name) && taken_.insert(name).second)
      properties_ += fmt::format("parameters {{ name: \"{}\" values: [{}] }}\n", name, value);
  }

  std::string Properties() const {
    if (properties_.empty()) return "";
    return "\n# The tl.constexpr parameters that say what is computed have one value each.\n# TODO: the values that "
           "you use.\n" +
           properties_;
  }

  // Defaults whose product is about a million.
  std::string Dims() const {
    constexpr int kDefaults[] = {1 << 20, 1 << 10, 1 << 7, 1 << 5, 1 << 4};
    const int value = dims_.size() > std::size(kDefaults) ? 4 : kDefaults[dims_.size() - 1];
    std::string text;
    for (const std::string& dim : dims_)
      text += fmt::format("dims {{ name: \"{}\" default_value: {} lookup: LOG }}\n", dim, value);
    return text;
  }

  std::string Arguments() const {
    std::string text;
    for (const TritonParameter& parameter : kernel_.parameters) {
      if (parameter.is_constexpr) continue;
      const std::string& name = parameter.name;
      if (parameter.is_pointer) {
        const auto length = lengths_.find(name);
        const std::string_view access = !parameter.is_written ? "IN" : parameter.is_read ? "INOUT" : "OUT";
        text += fmt::format("arguments {{ name: \"{}\" buffer {{ data_type: {} length: \"{}\" access: {} {}}} }}\n",
                            name, IsIndex(name) ? "I32" : "F32", length == lengths_.end() ? length_ : length->second,
                            access, IsIndex(name) && access != "OUT" ? "fill { zeros {} } " : "");
        continue;
      }
      const auto stride = strides_.find(name);
      const bool is_dim = std::find(dims_.begin(), dims_.end(), name) != dims_.end();
      text += fmt::format("arguments {{ name: \"{}\" scalar {{ data_type: {} value: \"{}\" }} }}\n", name,
                          IsFloat(name) ? "F32" : "I32",
                          is_dim                     ? name
                          : stride != strides_.end() ? stride->second
                          : Has(name, {"EPS"})       ? "1e-5"
                                                     : "1");
    }
    return text;
  }

  std::string Launch() const {
    std::vector<std::string> names;
    for (const TritonParameter& parameter : kernel_.parameters) {
      if (!parameter.is_constexpr) names.push_back("\"" + parameter.name + "\"");
    }
    return fmt::format("kernel {{ entry: \"{}\" grid: [\"{}\"] arguments: [{}] }}", kernel_.name,
                       absl::StrJoin(Grid(), "\", \""), absl::StrJoin(names, ", "));
  }

  // Tiles of the dims whose name a block's ends with (M and BLOCK_SIZE_M), but for the terms of a sum.
  std::vector<std::string> Grid() const {
    std::vector<std::string> tiles;
    for (const std::string& dim : dims_) {
      const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const std::string& one) {
        return absl::AsciiStrToUpper(one).ends_with("_" + absl::AsciiStrToUpper(dim));
      });
      if (block != blocks_.end() && !(absl::AsciiStrToUpper(dim) == "K" && tiles.size() >= 2))
        tiles.push_back(fmt::format("ceil_div({}, {})", dim, *block));
    }
    if (tiles.empty() && dims_.size() == 1 && !blocks_.empty())
      tiles.push_back(fmt::format("ceil_div({}, {})", dims_[0], blocks_[0]));
    if (tiles.empty()) tiles.push_back(dims_[0]);  // a program for each row
    if (kernel_.grid_axes == 1) return {absl::StrJoin(tiles, " * ")};
    tiles.resize(static_cast<size_t>(kernel_.grid_axes), "1");
    return tiles;
  }

  std::string name_, source_file_;
  std::vector<TritonFunction> kernels_;
  TritonFunction& kernel_;
  std::vector<std::string> dims_;
  std::string length_;                          // the product of the dims
  std::map<std::string, std::string> lengths_;  // of buffers whose strides are recognized
  std::map<std::string, std::string> strides_;
  std::set<std::string> taken_;  // names of dims and parameters
  std::vector<std::string> blocks_;
  std::string tunables_, properties_;
  std::vector<std::string> notes_;
};

}  // namespace

std::optional<DefinitionSketch> SketchTritonDefinition(const std::string& name, const std::string& source_file,
                                                       std::string_view source) {
  std::vector<TritonFunction> kernels = ReadTritonKernels(source);
  if (kernels.empty()) return std::nullopt;
  return TritonSketcher(name, source_file, std::move(kernels)).Run();
}

}  // namespace tunefarm::cli
