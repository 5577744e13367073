// Bests of any kernel as tables: CSV, JSON, Markdown. Bests come as SortBests leaves them.
//
// Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "server/interchange/exported_best.h"

namespace tunefarm::interchange {

// RFC 4180 with a header. kernel, device, device_class, problem; "dim.NAME" and "config.NAME" for all names that occur,
// sorted, empty where a kernel has no such name; then times in nanoseconds, speedup, match, and where it comes from.
// A cell is empty where nothing is known.
std::string WriteBestsCsv(const std::vector<ExportedBest>& bests);

// An array of objects with the same members; dims and config are objects. null where nothing is known.
std::string WriteBestsJson(const std::vector<ExportedBest>& bests);

// For each kernel and device class a heading, the dims that all of its problems share, and a table of the others.
std::string WriteBestsMarkdown(const std::vector<ExportedBest>& bests);

// A cell of a CSV file, quoted where it must be.
std::string CsvCell(std::string_view text);

}  // namespace tunefarm::interchange
