// Where an export goes: stdout, one file (--file, which is replaced), or a folder of files with names of their own
// (--dir, in which nothing is replaced unless --force says so).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/session.h"

namespace tunefarm::cli {

struct ExportedFile {
  std::string name;  // in a folder
  std::string text;
  std::string seed_note;  // what stands beside it as NAME.seed.json; empty: nothing does
};

struct ExportTarget {
  std::string file;
  std::string directory;
  bool force = false;

  void AddFile(CLI::App* command);
  // --dir and --force.
  void AddDirectory(CLI::App* command);

  // AlreadyExists for a file of the folder, by its name there, that is there and not to be replaced.
  absl::Status CheckIsNew(const std::string& name) const;

  // Writes whole files and says which, on stderr. InvalidArgument for several files where one can be; AlreadyExists,
  // before anything is written, for a file in the folder that is there and not to be replaced.
  absl::Status Write(const Session& session, const std::vector<ExportedFile>& files) const;
};

// What exports of the bests of several kernels into one file say.
std::string WroteBestsText(int64_t bests, int64_t kernels, const std::string& file);

}  // namespace tunefarm::cli
