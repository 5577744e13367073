// How many bests there are of each kernel on each device class, and how good they are. Any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "server/catalog/catalog.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm {

inline constexpr size_t kBestSummariesMax = 10'000;

// Of one kernel, or all if the name is empty: by kernel name and class name, the first kBestSummariesMax. One pass over
// the catalog. `newest_programs`: the program of the newest definition of each name; bests of a name that is not there
// count as made from it.
tunefarm::v1::SummarizeBestConfigsResponse SummarizeBests(
    const Catalog& catalog, std::string_view kernel_name,
    const std::map<std::string, std::string, std::less<>>& newest_programs);

}  // namespace tunefarm
