// Questions that are answered from a snapshot file. Thread-safe: nothing changes.
#pragma once

#include <memory>
#include <vector>

#include "client/cpp/question_cache.h"
#include "client/cpp/snapshot/snapshot_file.h"

namespace tunefarm::client {

// Fills a fresh question. kNotFound (KERNEL_NOT_FOUND, DEVICE_NOT_FOUND) unless a compiled-in default is about the
// kernel; kInvalidArgument (DEVICE_AMBIGUOUS) where it must be said which class is meant.
Status FillFromSnapshot(const snapshot::SnapshotFile& file, const std::vector<OwnDefault>& defaults,
                        QuestionImpl* question);

}  // namespace tunefarm::client
