// What `tunefarm kernels new` writes.
#pragma once

#include <string>

namespace tunefarm::cli {

// A valid display name made of a file's stem.
std::string KernelNameFrom(const std::string& stem);
std::string KernelTemplate(const std::string& name, const std::string& source_file, bool is_cuda);
std::string SourceTemplate(const std::string& name, bool is_cuda);
// Of a kernel in Python with NumPy.
std::string PythonTemplate(const std::string& name, const std::string& source_file);
std::string PythonSourceTemplate();

}  // namespace tunefarm::cli
