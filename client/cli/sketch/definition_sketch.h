// A first kernel.pbtxt for a source that exists. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tunefarm::cli {

struct DefinitionSketch {
  std::string text;                // a definition that passes the checks
  std::vector<std::string> notes;  // what was guessed and what is to be done, a sentence each
};

// The `sources` of a definition, a line each.
std::string SourceLines(const std::string& source_file, const std::vector<std::string>& headers);

// From the signature of the first kernel in a CUDA or C++ source: pointers become buffers, ints dims, other values
// scalars, template parameters and macros with a default become parameters. `name` is a display name, `source_file` the
// path beside the definition, `headers` what it includes from there. None where no kernel is recognized.
std::optional<DefinitionSketch> SketchDefinition(const std::string& name, const std::string& source_file,
                                                 std::string_view source, bool is_cuda,
                                                 const std::vector<std::string>& headers = {});

// From the names that a module of Python reads from its config ("config["N"]"): names of at most two letters are taken
// for dims, others for parameters. None where the module reads none.
std::optional<DefinitionSketch> SketchPythonDefinition(const std::string& name, const std::string& source_file,
                                                       std::string_view source);

// From the signature of the first kernel with @triton.jit in a Python source: pointers become buffers, other values
// scalars and dims, tl.constexpr parameters parameters, beside num_warps and num_stages. None where there is none.
std::optional<DefinitionSketch> SketchTritonDefinition(const std::string& name, const std::string& source_file,
                                                       std::string_view source);

}  // namespace tunefarm::cli
