// The KERNEL argument of commands: a definition file, a folder with one, the name of a built-in kernel, or of a
// stored one.
//
// A folder has one definition, kernel.pbtxt, and is then called like the kernel; or several that share sources, each
// called like its kernel (NAME.pbtxt).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/xdg.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {

struct KernelArgument {
  std::string name;                      // display name, or "kernels/{id}"
  std::optional<v1::Kernel> definition;  // with sources, when it came from a file
  std::string file;                      // the definition file, if any
  bool is_built_in = false;              // named as a built-in kernel, and not by a path

  std::string folder() const;  // of `file`, where the definition's data files lie
};

// Errors in the definition are located: "kernel.pbtxt:12:7: ...". NotFound for a path that does not exist; a bare name
// that is neither a file nor built in is taken for a stored kernel.
// Reads the data files of the definition, and names them by digest in it (DescribeDataFiles).
absl::StatusOr<KernelArgument> ResolveKernelArgument(const std::string& text, const EnvironmentGetter& environment);

// The same where the data do not matter, or are described later: no data file is opened.
absl::StatusOr<KernelArgument> ResolveKernelWithoutData(const std::string& text, const EnvironmentGetter& environment);

// The program_digest of the definition that came from a file, by which it is asked for: what other definitions of its
// name have found is not its own. Empty for a stored kernel, which its name stands for. The definition's errors.
absl::StatusOr<std::string> ProgramDigestOf(const KernelArgument& argument);

// The same where a path names the definition: a list of what there is under a built-in kernel's name shows all of it.
absl::StatusOr<std::string> ProgramDigestOfPath(const KernelArgument& argument);

// "matmul@0123456789ab": a stored definition, by its display name and its id or "kernels/{id}".
std::string VersionText(const std::string& display_name, const std::string& kernel_id);

// The folder of the built-in kernels: TUNEFARM_KERNELS, else ../share/tunefarm/kernels beside the program, else the
// source tree that it was built in. Empty when there is none.
std::string KernelsInTheBox(const EnvironmentGetter& environment);

struct BoxDefinition {
  std::string name;  // how ResolveKernelArgument finds it
  std::string file;
};

// Every built-in definition, and those of the examples, by name.
std::vector<BoxDefinition> DefinitionsInTheBox(const EnvironmentGetter& environment);

}  // namespace tunefarm::cli
