// Measured configs for tables that Triton kernels read: from the catalog, or from everything that a job has measured.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/options/best_filter.h"
#include "server/interchange/triton_config.h"

namespace tunefarm::cli {

struct TritonSourceOptions {
  BestFilter filter;
  std::string job;
  std::string m_dim;                    // which dim counts tokens; empty: tokens, else M
  std::vector<std::string> parameters;  // "BLOCK_SIZE_M=BLOCK_M"
  bool same_kernel = false;             // the kernel that was measured is the one that reads the table

  void AddTo(CLI::App* command);
};

// What one table is made of: problems of one kernel on one class that differ in M alone.
struct TritonProblems {
  std::string kernel;
  std::string device_class_name;
  Config dims;  // without M
  std::vector<interchange::TritonResult> results;
};

// Sorted by class and dims. Configs that Triton cannot take are left out, with a line for people; of a job the fastest
// that it can take stands for each problem. NotFound where nothing is left, InvalidArgument for a kernel without an M.
absl::StatusOr<std::vector<TritonProblems>> FetchTritonProblems(Session* session, const TritonSourceOptions& options);

// A dim that must be an integer above 0: InvalidArgument says which table needs it.
absl::StatusOr<int64_t> IntegerDim(const TritonProblems& problems, const std::string& name);

// Problems that go into one file must differ in M alone: InvalidArgument that says in which dims these two differ.
absl::Status NeedsChoice(const TritonProblems& a, const TritonProblems& b, std::string_view file);

// What goes beside the table; empty where the kernel is the reader's own. Says the same to people.
std::string SeedNoteOf(const Session& session, const TritonSourceOptions& options, const TritonProblems& problems,
                       const interchange::TritonTable& table, std::string_view file);

}  // namespace tunefarm::cli
