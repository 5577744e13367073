// From what the evaluator said to the Trial that is reported. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/agent/unit_work.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

inline constexpr size_t kTrialMessageBytesMax = 4096;
inline constexpr size_t kTrialLogBytesMax = 64 * 1024;

// A trial that ended before it ran: pruned, or not compiled.
tunefarm::v1::Trial TrialWithoutRun(const TrialWork& work, std::string_view device_uuid, tunefarm::v1::Outcome outcome,
                                    tunefarm::v1::Phase phase, std::string_view message, std::string_view log);

// A trial whose rounds have ended: the last one failed, or all are OK or NOISY. The samples of several rounds become
// one measurement; with several input sets its median is the mean of the sets' medians. `input_sets` is the number of
// seeds that the rounds went through in turn.
tunefarm::v1::Trial TrialFromRounds(const TrialWork& work, std::string_view device_uuid, int input_sets);

// Whether the trial's outcome is a verdict on its work, which other trials of its study with the same work take over:
// OK without throttling or contention, wrong results, damage, refusals by loader or driver, crashes and hangs. NOISY,
// OUT_OF_MEMORY and LOST are none: another attempt may end otherwise.
bool IsVerdict(const tunefarm::v1::Trial& trial);

// A trial that did not run because `first`, of the same study, did the same work.
tunefarm::v1::Trial ReusedTrial(const TrialWork& work, const tunefarm::v1::Trial& first);

// What control knows of an earlier trial of the same config, if its binary was made of the same headers as this one.
std::optional<tunefarm::v1::Trial> MeasuredBefore(const TrialWork& work);

// Cut at a character boundary of UTF-8, with bytes that are no UTF-8 replaced: protobuf text must be valid.
std::string CleanText(std::string_view text, size_t bytes_max);

}  // namespace tunefarm
