// The report of an A/A test, as text and as JSON.
#pragma once

#include <string>

#include "client/cli/doctor/repeatability_findings.h"
#include "server/measure/repeatability.h"

namespace tunefarm::cli {

std::string ReportText(const RepeatabilityFindings& findings, const Repeatability& found);
std::string ReportJson(const RepeatabilityFindings& findings, const Repeatability& found);

}  // namespace tunefarm::cli
