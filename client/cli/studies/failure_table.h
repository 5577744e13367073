// The commonest failures of a job, so that nobody has to look for their reason.
#pragma once

#include <string>
#include <vector>

#include "client/cli/session.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm::cli {

// A table of at most five outcomes that are not OK, most frequent first: how often, and the message and the config of
// the first trial that ended so. Then what raises a limit that was reached. Empty where nothing failed.
std::string FailuresText(const Session& session, const std::vector<v1::Trial>& trials);

}  // namespace tunefarm::cli
