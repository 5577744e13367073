// What the config that answers a question is compiled to: macros, launches, and the binary itself.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/session.h"
#include "server/definition/kernel_plan.h"
#include "tunefarm/v1/kernel_service.pb.h"
#include "tunefarm/v1/lookup_service.pb.h"

namespace tunefarm::cli {

// A config with the definition that it is one of, for the problem and the device class that were asked about.
struct AnsweredConfig {
  std::shared_ptr<const KernelPlan> plan;  // with sources
  ResolvedProblem problem;
  DeviceClass device_class;
  Config config;
  std::vector<std::pair<std::string, std::string>> constants;  // KernelPlan::Constants; none of a kernel in Python
  v1::CompileKernelRequest request;                            // for this config; binaries are not asked for yet
};

// `response` has the device class. FailedPrecondition where the daemon has no such definition any more, or is of a
// version that does not say the class; the calls' errors.
absl::StatusOr<AnsweredConfig> FindAnsweredConfig(Session* session, const KernelArgument& kernel,
                                                  const v1::Problem& problem, const std::string& device,
                                                  const v1::LookupConfigResponse& response);

// A header: in front of the first source it makes that compile as it was tuned. What is known at run time stands in a
// comment. InvalidArgument for a kernel in Python.
absl::StatusOr<std::string> DefinesText(const AnsweredConfig& answered);

// The compiled config with its binary. InvalidArgument where the language has no such format; FailedPrecondition where
// the config does not compile, or nothing is there that compiles.
absl::StatusOr<v1::CompileKernelResponse> CompileAnswered(Session* session, const AnsweredConfig& answered,
                                                          v1::BinaryFormat format);

// "answer" as ToJson writes it, with "macros", "compile_options", "launches" and "binary" behind its own fields.
// `compiled`: of CompileAnswered; null: there is none, and "binary" is null.
absl::StatusOr<std::string> AnswerJson(const v1::LookupConfigResponse& response, const AnsweredConfig& answered,
                                       const v1::CompileKernelResponse* compiled);

}  // namespace tunefarm::cli
