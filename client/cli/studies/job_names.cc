#include "client/cli/studies/job_names.h"

#include "server/base/status.h"

namespace tunefarm::cli {

absl::StatusOr<std::string> JobName(const std::string& text) {
  const std::string number = JobNumber(text);
  if (number.empty() || number.size() > 18 || number.find_first_not_of("0123456789") != std::string::npos) {
    return InvalidArgument("'{}' is not a job; write its number, as tunefarm jobs list shows it", text);
  }
  return "jobs/" + number;
}

std::string JobNumber(const std::string& name) { return name.rfind("jobs/", 0) == 0 ? name.substr(5) : name; }

}  // namespace tunefarm::cli
