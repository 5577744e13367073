// What the text of a CUDA or C++ source shows of its kernels, for a first definition. A best effort, not a compiler:
// comments and strings are skipped, macros are not expanded. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tunefarm::cli {

struct SourceArgument {
  std::string name;
  std::string type;       // without const, pointers and qualifiers: "float", "unsigned int", "T"
  int pointers = 0;       // 2: float**
  bool is_const = false;  // of what a pointer points to
  size_t offset = 0;      // of the name in the source

  bool is_pointer() const { return pointers > 0; }
  // "I32" of int and int32_t: what the type, or what a pointer to it points to, is for a definition. Empty for others,
  // such as float4, structs, pointers to pointers and parameters of templates.
  std::string data_type() const;
};

struct TemplateParameter {
  std::string name;
  std::string type;  // "typename" or "class" for types, else "int", "bool", ...
  bool is_type() const { return type == "typename" || type == "class"; }
};

struct SourceFunction {
  std::string name;
  std::vector<TemplateParameter> templates;
  std::vector<SourceArgument> arguments;
  bool is_extern_c = false;
};

struct SourceSignature {
  // __global__ functions, or for C++ the extern "C" functions, else all that return void. In their order.
  std::vector<SourceFunction> functions;
  // #ifndef NAME, then #define NAME with an integer: what the source itself means to be set from outside.
  std::vector<std::pair<std::string, int64_t>> macros;
};

SourceSignature ReadSignature(std::string_view source, bool is_cuda);

}  // namespace tunefarm::cli
