// The headers that sources include, and the header that gives a config's constants to them. Pure.
//
// Constants are macros, and a macro breaks a library header that uses its name (`size`, `T`, `pad`). Therefore they are
// defined by a generated header behind the library headers with which the first source begins, not by options of the
// compiler.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// A name in an #include directive or in __has_include.
struct IncludedName {
  size_t begin = 0;  // offset in the source, behind the quote or bracket
  std::string name;
  bool is_quoted = false;
  bool is_test = false;  // of __has_include
  // Only comments, #pragma once, an include guard's head and other includes stand before it.
  bool is_leading = false;
};

// In order. Comments and string literals are skipped; conditions are not evaluated. Names longer than 256 bytes are
// left out.
std::vector<IncludedName> FindIncludedNames(std::string_view source);

// The source that `name` means where it is included by the source `includer`: for a quoted name first relative to the
// includer's folder, then relative to the definition's. Null if it is none of the definition's sources.
const tunefarm::v1::SourceFile* FindIncludedSource(const tunefarm::v1::Kernel& kernel, std::string_view includer,
                                                   std::string_view name, bool is_quoted);

// The headers beside a source that a definition of it must list.
struct IncludedHeaders {
  std::vector<std::string> paths;      // relative to the source's folder, in the order in which they are met
  std::vector<std::string> elsewhere;  // included names that `read` has no content for
  bool is_cut = false;                 // a definition takes no more
};

// What the source, a file of that name, and the headers found so far include with quotes. `read` gives the content of a
// file by its path relative to the source's folder; none for what is not there, too large or not below that folder. A
// name is looked for as in FindIncludedSource. Conditions are not evaluated. At most as many headers and bytes as a
// definition may have.
IncludedHeaders FindIncludedHeaders(const std::string& file_name, std::string_view source,
                                    const std::function<std::optional<std::string>(const std::string& path)>& read);

// The content of a source with its included names replaced by the paths of the sources that they mean, for a compiler
// that finds headers only by their full paths. Lines keep their numbers. The text of a macro that a source
// includes (`#define NAME "header"` for `#include NAME`) is replaced as well; it is resolved from the first including
// source, in the order of the definition, from which it names a source of the kernel.
std::string WithFullIncludePaths(const tunefarm::v1::Kernel& kernel, const tunefarm::v1::SourceFile& source);

// NAME and VALUE of a compiler option "-DNAME=VALUE" or "-DNAME", whose value is 1; none for another option.
std::optional<std::pair<std::string, std::string>> MacroOfOption(std::string_view option);

// "#define NAME VALUE", a line.
std::string DefineLine(const std::pair<std::string, std::string>& macro);

// All macros that a config is compiled with, in order: those of the definition's options, then the constants
// (KernelPlan::Constants).
std::vector<std::pair<std::string, std::string>> AllMacros(
    const tunefarm::v1::Kernel& kernel, const std::vector<std::pair<std::string, std::string>>& constants);

// The header that the compiler reads before the first source: the leading library headers of that source and of the
// sources that it includes, where the compiler has them, then a macro for each constant.
std::string ConfigHeader(const tunefarm::v1::Kernel& kernel,
                         const std::vector<std::pair<std::string, std::string>>& constants);

// What to add to the message of a compiler that failed with this log, where macros of constants break a library header:
// the constants, the headers and what to do. Sources see the macros in headers that they include after other lines than
// includes. Empty unless the first error is in a file that is no source, its lines have the name of a constant, and
// there are such headers.
std::string HintOfConstantsInLibraries(const tunefarm::v1::Kernel& kernel,
                                       const std::vector<std::pair<std::string, std::string>>& constants,
                                       std::string_view log);

}  // namespace tunefarm
