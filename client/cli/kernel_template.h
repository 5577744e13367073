// What `tunefarm kernels new` writes.
#pragma once

#include <string>
#include <vector>

namespace tunefarm::cli {

// A valid display name made of a file's stem.
std::string KernelNameFrom(const std::string& stem);
// `headers`: paths of those that the source includes.
std::string KernelTemplate(const std::string& name, const std::string& source_file, bool is_cuda,
                           const std::vector<std::string>& headers = {});
std::string SourceTemplate(const std::string& name, bool is_cuda);
// Of a kernel in Python with NumPy.
std::string PythonTemplate(const std::string& name, const std::string& source_file);
std::string PythonSourceTemplate();

}  // namespace tunefarm::cli
