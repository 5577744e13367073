// THE table: what an error of the CUDA driver says about the config that was at work. Pure.
#pragma once

#include "tunefarm/v1/trial.pb.h"

namespace tunefarm::cuda {

// What was asked of the driver when it answered with an error: the same error means a bad config in one place and a
// fault of our own in another.
enum class CallKind { kMachinery, kLoad, kLaunch };

struct ErrorMeaning {
  tunefarm::v1::Outcome outcome;
  // Every later call in this process fails too: it must end.
  bool sticky;
};

// `error` is a CUresult other than CUDA_SUCCESS. Errors that nobody has listed are OUTCOME_LOST.
ErrorMeaning MeaningOf(int error, CallKind kind);

}  // namespace tunefarm::cuda
