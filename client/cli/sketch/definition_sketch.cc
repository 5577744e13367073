#include "client/cli/sketch/definition_sketch.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "client/cli/sketch/source_signature.h"
#include "server/expression/expression.h"

namespace tunefarm::cli {
namespace {

bool IsInteger(const std::string& data_type) { return data_type.find_first_of("IU") == 0; }

bool Contains(const std::string& text, std::string_view part) {
  std::string upper;
  for (const char c : text) upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return upper.find(part) != std::string::npos;
}

bool IsBlock(const std::string& name) { return Contains(name, "BLOCK") || Contains(name, "THREADS"); }

// The source's own reference, by its name.
bool IsReference(const std::string& name) { return name.ends_with("_reference") || name.ends_with("_ref"); }

// NAME of each config["NAME"] in a module.
std::vector<std::string> NamesRead(std::string_view source) {
  constexpr std::string_view kRead = "config[";
  std::vector<std::string> names;
  for (size_t at = source.find(kRead); at != std::string_view::npos; at = source.find(kRead, at + 1)) {
    const size_t begin = at + kRead.size();
    const char quote = begin < source.size() ? source[begin] : ' ';
    const size_t end = quote == '"' || quote == '\'' ? source.find(quote, begin + 1) : std::string_view::npos;
    if (end != std::string_view::npos && end - begin < 64)
      names.emplace_back(source.substr(begin + 1, end - begin - 1));
  }
  return names;
}

class Sketcher {
 public:
  Sketcher(std::string name, std::string source_file, SourceSignature signature, bool is_cuda,
           const std::vector<std::string>& headers)
      : name_(std::move(name)),
        source_file_(std::move(source_file)),
        signature_(std::move(signature)),
        is_cuda_(is_cuda),
        headers_(headers) {}

  std::optional<DefinitionSketch> Run() {
    for (const SourceFunction& function : signature_.functions) {
      const SourceFunction*& place = IsReference(function.name) ? reference_ : kernel_;
      if (place == nullptr) place = &function;
    }
    if (kernel_ == nullptr) return std::nullopt;
    if (reference_ != nullptr && reference_->arguments.size() != kernel_->arguments.size()) reference_ = nullptr;
    ReadDims();
    const std::string parameters = Parameters();
    const std::string arguments = Arguments();
    sketch_.text = fmt::format(
        "# Made from the signature of {0} in {1}: a first guess to be corrected.\n"
        "# Check it with:  tunefarm kernels check .        Tune it with:  tunefarm tune .\n"
        "# tunefarm help expressions explains what may stand in quotes.\n"
        "\n"
        "display_name: \"{2}\"\n"
        "language: {3}\n"
        "{9}"
        "\n"
        "# The problem: what a user of the kernel chooses.\n"
        "{4}"
        "\n"
        "# The tunables: each is a macro of its name in the source.\n"
        "{5}"
        "\n"
        "# Constant pointers are taken for inputs, which are filled with random numbers (fill {{ file: \"x.npy\" }}: "
        "yours),\n"
        "# others for outputs (access: INOUT for what is read too). Lengths are in elements.\n"
        "{6}"
        "\n"
        "# What is timed.\n"
        "launches {{ {7} }}\n"
        "\n"
        "{8}",
        kernel_->name, source_file_, name_, is_cuda_ ? "CUDA" : "HOST_CXX", Dims(), parameters, arguments,
        Launch(*kernel_, block_), Reference(), SourceLines(source_file_, headers_));
    Notes();
    return std::move(sketch_);
  }

 private:
  bool IsDim(const SourceArgument& argument) const {
    return !argument.is_pointer() && IsInteger(argument.data_type()) && argument.type != "bool" &&
           IsValidName(argument.name) && argument.name != "device" && argument.name != "kernel";
  }

  void ReadDims() {
    for (const SourceArgument& argument : kernel_->arguments) {
      if (IsDim(argument)) dims_.push_back(argument.name);
    }
    if (dims_.empty()) dims_.emplace_back("N");
    for (const std::string& dim : dims_) {
      length_ += (length_.empty() ? "" : " * ") + dim;
      taken_.insert(dim);
    }
  }

  // Defaults whose product, which every buffer is long, is about a million.
  std::string Dims() const {
    constexpr int kDefaults[] = {1 << 20, 1 << 10, 1 << 7, 1 << 5, 1 << 4};
    const int value = dims_.size() > std::size(kDefaults) ? 4 : kDefaults[dims_.size() - 1];
    std::string text;
    for (const std::string& dim : dims_) {
      text += fmt::format("dims {{ name: \"{}\" default_value: {} lookup: LOG }}\n", dim, value);
    }
    return text;
  }

  void AddParameter(const std::string& name, const std::string& domain, std::string* text) {
    if (!IsValidName(name) || !taken_.insert(name).second) return;
    *text += fmt::format("parameters {{ name: \"{}\" {} }}\n", name, domain);
    has_parameters_ = true;
    if (block_.empty() && IsBlock(name)) block_ = name;
  }

  // Values around one that the source itself takes.
  static std::string Around(int64_t value) {
    if (value <= 0 || value > (int64_t{1} << 40)) return fmt::format("values: [{}]", value);
    std::string list = value % 2 == 0 ? fmt::format("{}, ", value / 2) : std::string();
    return fmt::format("values: [{}{}, {}] default_value: {}", list, value, value * 2, value);
  }

  std::string Parameters() {
    std::string text;
    for (const auto& [name, value] : signature_.macros) AddParameter(name, Around(value), &text);
    for (const TemplateParameter& parameter : kernel_->templates) {
      // A macro of the template parameter's own name would replace it where it is declared.
      const std::string name = "TUNE_" + parameter.name;
      if (parameter.is_type()) {
        AddParameter(name, "values: [\"float\"]", &text);
      } else if (parameter.type == "bool") {
        AddParameter(name, "values: [false, true]", &text);
      } else {
        AddParameter(
            name, IsBlock(parameter.name) ? "values: [64, 128, 256, 512] default_value: 256" : "values: [1, 2, 4, 8]",
            &text);
      }
    }
    if (is_cuda_ && block_.empty()) AddParameter("BLOCK_SIZE", "values: [64, 128, 256, 512] default_value: 256", &text);
    if (!has_parameters_) AddParameter("UNROLL", "values: [1, 2, 4, 8]", &text);
    return text;
  }

  bool IsTemplateType(const std::string& type) const {
    return std::any_of(kernel_->templates.begin(), kernel_->templates.end(), [&](const TemplateParameter& parameter) {
      return parameter.is_type() && parameter.name == type;
    });
  }

  std::string Arguments() {
    std::string text;
    for (const SourceArgument& argument : kernel_->arguments) {
      std::string type = argument.data_type();
      if (type.empty()) {
        type = "F32";
        if (!IsTemplateType(argument.type))
          sketch_.notes.push_back(
              fmt::format("{} is of type {}, which is no data type: F32 is a guess; set data_type and "
                          "length.",
                          argument.name, argument.type + std::string(argument.pointers > 1 ? "*" : "")));
      }
      if (argument.is_pointer()) {
        text += fmt::format("arguments {{ name: \"{}\" buffer {{ data_type: {} length: \"{}\" access: {} }} }}\n",
                            argument.name, type, length_, argument.is_const ? "IN" : "OUT");
        has_output_ = has_output_ || !argument.is_const;
      } else {
        const std::string value = IsDim(argument) ? "\"" + argument.name + "\"" : "1";
        text += fmt::format("arguments {{ name: \"{}\" scalar {{ data_type: {} value: {} }} }}\n", argument.name, type,
                            value);
      }
    }
    return text;
  }

  std::string Launch(const SourceFunction& function, const std::string& block) const {
    std::string entry = function.name;
    if (!function.templates.empty()) {
      std::string list;
      for (const TemplateParameter& parameter : function.templates)
        list += (list.empty() ? "TUNE_" : ", TUNE_") + parameter.name;
      entry += "<" + list + ">";
    }
    std::string text = fmt::format("kernel {{ entry: \"{}\" ", entry);
    if (is_cuda_) text += fmt::format("grid: \"ceil_div({}, {})\" block: \"{}\" ", length_, block, block);
    std::string names;
    for (const SourceArgument& argument : kernel_->arguments)
      names += (names.empty() ? "\"" : ", \"") + argument.name + "\"";
    return text + fmt::format("arguments: [{}] }}", names);
  }

  std::string Reference() const {
    if (reference_ != nullptr && has_output_) {
      return fmt::format(
          "# What the outputs must equal.\nreference {{ steps {{ {} }} }}\ntolerance {{ atol: 1e-5 rtol: "
          "1e-5 }}\n",
          Launch(*reference_, "256"));
    }
    return fmt::format(
        "# Nothing checks the outputs yet. Write plain code that is surely right as {0}_reference, with the same\n"
        "# arguments, and replace the next line by:  reference {{ steps {{ kernel {{ entry: \"{0}_reference\" ... }} "
        "}} }}\n"
        "# or, where files hold the right outputs, by:  reference {{ files {{ buffer: \"y\" file: \"y.npy\" }} }}\n"
        "unverified_reason: \"there is no reference yet\"\n",
        kernel_->name);
  }

  void Notes() {
    if (is_cuda_) sketch_.notes.push_back("The grid covers one element a thread; correct it where a thread does more.");
    if (!kernel_->is_extern_c && !is_cuda_)
      sketch_.notes.push_back(fmt::format("Declare {} as extern \"C\": it is found by its name.", kernel_->name));
    if (reference_ == nullptr)
      sketch_.notes.push_back("Results are marked as unverified until the definition has a reference.");
    std::string others;
    for (const SourceFunction& function : signature_.functions) {
      if (&function != kernel_ && &function != reference_) others += (others.empty() ? "" : ", ") + function.name;
    }
    if (!others.empty())
      sketch_.notes.push_back(fmt::format("Other functions of the source are left out: {}.", others.substr(0, 200)));
  }

  std::string name_, source_file_;
  SourceSignature signature_;
  bool is_cuda_;
  const std::vector<std::string>& headers_;
  const SourceFunction* kernel_ = nullptr;
  const SourceFunction* reference_ = nullptr;
  std::vector<std::string> dims_;
  std::string length_;           // the product of the dims
  std::set<std::string> taken_;  // names of dims and parameters
  std::string block_;            // the parameter that is the number of threads
  bool has_parameters_ = false;
  bool has_output_ = false;
  DefinitionSketch sketch_;
};

}  // namespace

std::string SourceLines(const std::string& source_file, const std::vector<std::string>& headers) {
  std::string text = fmt::format("sources {{ path: \"{}\" }}\n", source_file);
  for (const std::string& header : headers) text += fmt::format("sources {{ path: \"{}\" }}\n", header);
  return text;
}

std::optional<DefinitionSketch> SketchDefinition(const std::string& name, const std::string& source_file,
                                                 std::string_view source, bool is_cuda,
                                                 const std::vector<std::string>& headers) {
  return Sketcher(name, source_file, ReadSignature(source, is_cuda), is_cuda, headers).Run();
}

std::optional<DefinitionSketch> SketchPythonDefinition(const std::string& name, const std::string& source_file,
                                                       std::string_view source) {
  std::string dims, parameters;
  std::set<std::string> seen;
  for (const std::string& read : NamesRead(source)) {
    if (!IsValidName(read) || seen.size() >= 64 || !seen.insert(read).second) continue;
    if (read.size() <= 2) {
      dims += fmt::format("dims {{ name: \"{}\" default_value: 1024 lookup: LOG }}\n", read);
    } else {
      parameters += fmt::format("parameters {{ name: \"{}\" values: [16, 32, 64] }}\n", read);
    }
  }
  if (seen.empty()) return std::nullopt;
  bool is_on_gpu = false;
  for (const char* module : {"import torch", "from torch", "import triton", "from triton", "import cupy", "from cupy"})
    is_on_gpu = is_on_gpu || source.find(module) != std::string_view::npos;
  DefinitionSketch sketch;
  sketch.text = fmt::format(
      "# Made from the names that {0} reads from its config: a first guess to be corrected.\n"
      "# Check it with:  tunefarm kernels check .        Tune it with:  tunefarm tune .\n"
      "\n"
      "display_name: \"{1}\"\n"
      "language: PYTHON\n"
      "python {{ device: {2} }}\n"
      "sources {{ path: \"{0}\" }}\n"
      "\n"
      "# The problem: what a user of the kernel chooses.\n"
      "{3}"
      "\n"
      "# The tunables.\n"
      "{4}",
      source_file, name, is_on_gpu ? "CUDA" : "HOST", dims, parameters);
  if (source.find("def make_run_and_gt") == std::string_view::npos)
    sketch.notes.push_back(source_file +
                           " must define make_run_and_gt(config), which returns run and the expected outputs.");
  sketch.notes.emplace_back("The values of parameters are guesses.");
  return sketch;
}

}  // namespace tunefarm::cli
