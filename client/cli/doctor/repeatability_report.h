// The report of an A/A test, as text and as JSON.
#pragma once

#include <span>
#include <string>

#include "client/cli/doctor/repeatability_findings.h"
#include "client/cli/output.h"
#include "server/measure/repeatability.h"

namespace tunefarm::cli {

std::string ReportText(const RepeatabilityFindings& findings, const Repeatability& found);
std::string ReportJson(const RepeatabilityFindings& findings, const Repeatability& found);

// The same of several problems: a row for each, and a list.
Table SuiteTable(std::span<const RepeatabilityFindings> suite);
std::string SuiteJson(std::span<const RepeatabilityFindings> suite);
// What the pairs of all of them say together, for below the table.
std::string SuiteText(std::span<const RepeatabilityFindings> suite, const Repeatability& found);

}  // namespace tunefarm::cli
