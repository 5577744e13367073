// The sources of an imported kernel: the kernel's own file, what it includes, and a generated file around them where
// the definition needs functions of its own. Private to this folder.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::interchange {

using ReadSource = std::function<absl::StatusOr<std::string>(const std::string& path)>;

// A function that sets every element of a vector to an expression of its index.
struct ElementFunction {
  std::string entry;
  std::string element_type;  // "float"
  std::string value;         // C++ over the double `tunefarm_i`
};

// The index in ElementFunction::value.
inline constexpr char kElementIndex[] = "tunefarm_i";

// Collects `main_file` (and `reference_file`, unless it is empty) with everything they include in quotes that
// read_source knows, and puts a generated file in front if there are functions or a reference. Paths become relative to
// the folder of main_file.
absl::StatusOr<std::vector<tunefarm::v1::SourceFile>> CollectSources(const std::string& main_file,
                                                                     const std::string& reference_file,
                                                                     const std::vector<ElementFunction>& functions,
                                                                     bool is_cuda, const ReadSource& read_source);

}  // namespace tunefarm::interchange
