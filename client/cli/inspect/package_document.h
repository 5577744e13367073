// What a package file holds, as one document with names in the place of the numbers of records. Pure; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "client/launch/package.h"

namespace tunefarm::cli {

// Far more than a package of a farm describes. Records may share others, so that a small file may describe a document
// that fits into no memory.
inline constexpr size_t kPackageDocumentBytesMax = size_t{1} << 30;

// ResourceExhausted where the document would take more than about `bytes_max`. Its texts need not be UTF-8.
absl::StatusOr<nlohmann::ordered_json> PackageDocument(const launch::Package& package,
                                                       size_t bytes_max = kPackageDocumentBytesMax);

// The document for people. Texts of the package are made visible: each line break is one of this function's.
std::string PackageText(const nlohmann::ordered_json& document);

}  // namespace tunefarm::cli
