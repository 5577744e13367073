#include "server/catalog/best_row.h"

#include "server/base/status.h"

namespace tunefarm {

absl::StatusOr<tunefarm::v1::BestConfig> BestOfRow(const BestRow& row) {
  tunefarm::v1::BestConfig best;
  if (!best.ParseFromString(row.detail)) {
    return DataLoss("the stored best config of kernel {} for {} cannot be read", row.kernel_name, row.problem_key);
  }
  best.set_revision(row.revision);
  best.set_pinned(row.pinned);
  best.set_note(row.note);
  return best;
}

}  // namespace tunefarm
