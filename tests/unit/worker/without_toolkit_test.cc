// What a worker answers that was built without a CUDA Toolkit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/status.h"
#include "server/worker/backend.h"

namespace tunefarm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const auto kSaysWhatToDo = AllOf(HasSubstr("built without a CUDA Toolkit"), HasSubstr("build it with CUDA Toolkit"));

TEST(WithoutToolkit, CompilingIsRefusedWithWhatToDo) {
  EXPECT_THAT(MessageOf(MakeCudaCompileBackend({}).status()), kSaysWhatToDo);
}

TEST(WithoutToolkit, RunningIsRefusedWithWhatToDo) {
  EXPECT_THAT(MessageOf(MakeCudaRunBackend({}).status()), kSaysWhatToDo);
}

TEST(WithoutToolkit, TheProbeFindsNoDeviceAndNotesWhy) {
  tunefarm::worker::v1::ProbeReport report;
  MakeCudaProbeBackend({})->Probe(&report);
  EXPECT_EQ(report.devices_size(), 0);
  ASSERT_EQ(report.notes_size(), 1);
  EXPECT_THAT(report.notes(0), AllOf(kSaysWhatToDo, testing::EndsWith(".")));
}

}  // namespace
}  // namespace tunefarm
