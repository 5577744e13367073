// Encodes one launch sequence as the records of a package file (client/launch/package_format.h). A free function; calls
// with different tables may run at once.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "client/launch/package_format.h"
#include "server/package/package_tables.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/v1/launch_sequence.pb.h"

namespace tunefarm {

// Adds the buffers, the prepare steps, the launches and the constraints of the sequence to the tables and writes their
// numbers and counts to the choice, whose other fields are left alone. `dims` are all dims that the package has of the
// kernel, in the package's order: that of their slots.
//
// InvalidArgument for what is beyond the format's limits, for a step that names no buffer of the sequence, and for an
// expression that does not compile. The tables then hold some of the records, and make no package.
absl::Status EncodeSequence(const std::vector<v1::Dim>& dims, const v1::LaunchSequence& sequence, PackageTables* tables,
                            package::ChoiceRecord* choice);

}  // namespace tunefarm
