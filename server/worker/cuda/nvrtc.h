// NVRTC, opened at run time. Compiles CUDA C++ to machine code for one architecture; needs no GPU.
//
// One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/cuda/library_search.h"
#include "server/worker/cuda/shared_library.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm::cuda {

struct NvrtcInput {
  std::string name;  // of the translation unit, for messages
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // path in #include, content
  std::vector<std::string> options;
  std::vector<std::string> name_expressions;
  bool ptx = false;  // PTX instead of machine code; the architecture among the options must be a virtual one
};

struct NvrtcOutput {
  tunefarm::v1::Outcome outcome = tunefarm::v1::OUTCOME_OK;
  std::string message;  // one sentence unless OK
  std::string log;
  std::string binary;  // a cubin, or PTX without the terminator
  std::map<std::string, std::string> lowered_names;
};

class Nvrtc {
 public:
  // FailedPrecondition with one sentence when it is nowhere to be found or too old.
  static absl::StatusOr<std::unique_ptr<Nvrtc>> Open(const std::vector<SearchPlace>& places);
  ~Nvrtc();

  NvrtcOutput Compile(const NvrtcInput& input) const;

  int major() const { return major_; }
  std::string version() const;  // "13.0"
  const std::string& path() const;
  // Directories with the toolkit's headers; empty if they were not found.
  const std::vector<std::string>& include_directories() const { return include_directories_; }

 private:
  struct Functions;

  Nvrtc();

  std::unique_ptr<Functions> functions_;
  SharedLibrary library_;
  std::vector<std::string> include_directories_;
  int major_ = 0, minor_ = 0;
};

}  // namespace tunefarm::cuda
