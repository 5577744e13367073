#include "server/exec/frame_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "server/base/random.h"
#include "server/base/status.h"
#include "server/exec/frame_check.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using tunefarm::worker::v1::Evaluate;
using tunefarm::worker::v1::Frame;
using tunefarm::worker::v1::Result;

Frame EvaluateFrame() {
  Frame frame;
  Evaluate* evaluate = frame.mutable_evaluate();
  evaluate->set_evaluation_id(std::numeric_limits<uint64_t>::max());
  evaluate->set_race_limit_ns(0.1 + 0.2);
  auto& values = *evaluate->mutable_config()->mutable_values();
  values["least"].set_int_value(std::numeric_limits<int64_t>::min());
  values["most"].set_int_value(std::numeric_limits<int64_t>::max());
  values["smallest"].set_double_value(std::numeric_limits<double>::denorm_min());
  values["largest"].set_double_value(std::numeric_limits<double>::max());
  values["infinite"].set_double_value(-std::numeric_limits<double>::infinity());
  values["text"].set_string_value("gr\xc3\xbcn <\"\\\n\x7f>");
  values["off"].set_bool_value(false);
  values[""].set_int_value(0);
  return frame;
}

TEST(FrameCodec, OnlyPythonWorkersSpeakJson) {
  EXPECT_EQ(FrameCodecOf(kPythonHostBackend), FrameCodec::kJson);
  EXPECT_EQ(FrameCodecOf(kPythonCudaBackend), FrameCodec::kJson);
  EXPECT_EQ(FrameCodecOf(kHostBackend), FrameCodec::kProtobuf);
  EXPECT_EQ(FrameCodecOf(kCudaBackend), FrameCodec::kProtobuf);
}

TEST(FrameCodec, MessagesComeBackExactlyAsTheyWere) {
  tunefarm::v1::Kernel kernel;
  tunefarm::v1::SourceFile* source = kernel.add_sources();
  source->set_path("a.py");
  for (int byte = 0; byte < 256; ++byte) source->mutable_content()->push_back(static_cast<char>(byte));
  Frame result;
  result.mutable_result()->set_outcome(tunefarm::v1::OUTCOME_OK);
  auto* mismatch = result.mutable_result()->mutable_verification()->add_first_mismatches();
  mismatch->set_actual(std::numeric_limits<double>::infinity());
  for (int i = 0; i < 1000; ++i) {
    result.mutable_result()->mutable_measurement()->add_sample_ns(std::exp(static_cast<float>(i) / 30.0f));
  }
  const Frame evaluate = EvaluateFrame();
  for (const FrameCodec codec : {FrameCodec::kProtobuf, FrameCodec::kJson}) {
    for (const google::protobuf::Message* message :
         std::vector<const google::protobuf::Message*>{&kernel, &result, &evaluate}) {
      const absl::StatusOr<std::string> bytes = EncodeMessage(codec, *message);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      const std::unique_ptr<google::protobuf::Message> read(message->New());
      ASSERT_TRUE(DecodeMessage(codec, *bytes, read.get()).ok()) << *bytes;
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*read, *message)) << *bytes;
    }
  }
}

TEST(FrameCodec, JsonHasTheNamesOfTheDefinitionsAndNumbersForEnumerators) {
  Frame frame;
  frame.mutable_phase_began()->set_evaluation_id(7);
  frame.mutable_phase_began()->set_phase(tunefarm::v1::PHASE_MEASURE);
  EXPECT_EQ(*EncodeMessage(FrameCodec::kJson, frame), R"({"phase_began":{"evaluation_id":"7","phase":5}})");
  // Which Python reads as -0.0.
  Frame minus;
  minus.mutable_evaluate()->set_race_limit_ns(-0.0);
  EXPECT_EQ(*EncodeMessage(FrameCodec::kJson, minus), R"({"evaluate":{"race_limit_ns":-0}})");
  Frame shutdown;
  shutdown.mutable_shutdown();
  EXPECT_EQ(*EncodeMessage(FrameCodec::kJson, shutdown), R"({"shutdown":{}})");
}

TEST(FrameCodec, ReadsWhatAPythonWorkerWrites) {
  Frame frame;
  ASSERT_TRUE(DecodeMessage(FrameCodec::kJson, R"({"result":{"evaluation_id":18446744073709551615,"outcome":14,
      "worker_is_damaged":true,"message":"gr\u00fcn \ud83d\ude00","compile_ms":0.30000000000000004,"load_ms":-0.0,
      "verification":{"first_mismatches":[{"actual":"NaN","expected":"-Infinity","index":3}]},
      "measurement":{"median_ns":2,"stdev_ns":1e-05,"sample_ns":[1.5,16777216.0,0.1],"samples":3}}})",
                            &frame)
                  .ok());
  const Result& result = frame.result();
  EXPECT_EQ(result.evaluation_id(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(result.outcome(), tunefarm::v1::OUTCOME_NOISY);
  EXPECT_EQ(result.message(), "gr\xc3\xbcn \xf0\x9f\x98\x80");
  EXPECT_EQ(result.compile_ms(), 0.1 + 0.2);
  EXPECT_TRUE(std::signbit(result.load_ms()));
  EXPECT_TRUE(std::isnan(result.verification().first_mismatches(0).actual()));
  EXPECT_EQ(result.measurement().stdev_ns(), 1e-5);
  EXPECT_THAT(result.measurement().sample_ns(), testing::ElementsAre(1.5f, 16777216.0f, 0.1f));
}

TEST(FrameCodec, RefusesHostileJsonWithOnePrintableLine) {
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  const std::string packets[] = {
      "", "null", "[]", "1", "\"log\"", "{", "{\"log\"", "{\"log\":{}} {}", "{\"log\":{}}x", deep,
      "{\"log\":" + deep + "}", std::string("{\"log\":{}}\0", 11), "\xef\xbb\xbf{\"log\":{}}",
      // Fields that are not there, or there twice.
      R"({"lo":{}})", R"({"log":{"text":"a","more":1}})", R"({"log":{},"result":{}})", R"({"@type":"x"})",
      R"({"result":{"lowered_names":{"a":"b","a":"c"}}})",
      // Other types.
      R"({"log":1})", R"({"log":[]})", R"({"log":{"text":1}})", R"({"log":{"text":{}}})", R"({"log":{"text":["a"]}})",
      R"({"result":{"has_artifact":1}})", R"({"result":{"lowered_names":{"a":1}}})",
      R"({"result":{"lowered_names":[]}})", R"({"result":{"measurement":{"sample_ns":{}}}})",
      R"({"result":{"measurement":{"sample_ns":["a"]}}})",
      // Numbers that the field does not hold.
      R"({"result":{"evaluation_id":-1}})", R"({"result":{"evaluation_id":"-1"}})",
      R"({"result":{"evaluation_id":"18446744073709551616"}})", R"({"result":{"evaluation_id":1.5}})",
      R"({"result":{"outcome":4294967296}})", R"({"result":{"outcome":1.5}})",
      R"({"result":{"outcome":"OUTCOME_BEST"}})", R"({"result":{"compile_ms":NaN}})",
      R"({"result":{"compile_ms":Infinity}})", R"({"result":{"compile_ms":1e999}})",
      R"({"result":{"compile_ms":"fast"}})", R"({"result":{"measurement":{"sample_ns":[1e39]}}})",
      R"({"result":{"measurement":{"samples":2147483648}}})",
      // Text that is no UTF-8.
      "{\"log\":{\"text\":\"\xff\"}}", "{\"log\":{\"\xff\":1}}", R"({"log":{"text":"\ud800"}})",
      R"({"log":{"text":"\udc00"}})", "{\"log\":{\"text\":\"\xc0\x80\"}}", "{\"log\":{\"text\":\"\xed\xa0\x80\"}}",
      R"({"result":{"outcome":")" + std::string(100'000, 'x') + "\x1b\n\"}}"};
  for (const std::string& packet : packets) {
    Frame frame;
    const absl::Status status = DecodeMessage(FrameCodec::kJson, packet, &frame);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << packet.substr(0, 100);
    const std::string_view reason = MessageOf(status);
    EXPECT_FALSE(reason.empty()) << packet.substr(0, 100);
    EXPECT_LE(reason.size(), 200u);
    for (const char c : reason) EXPECT_TRUE(c >= ' ' && c <= '~') << reason;
  }
}

TEST(FrameCodec, TimesThatAreNoNumbersAreReadAndThenRefused) {
  for (const char* time : {"NaN", "Infinity", "-Infinity"}) {
    Frame frame;
    const std::string packet =
        R"({"result":{"outcome":1,"measurement":{"samples":1,"median_ns":")" + std::string(time) + R"("}}})";
    ASSERT_TRUE(DecodeMessage(FrameCodec::kJson, packet, &frame).ok());
    EXPECT_THAT(CheckResult(frame.result(), WorkerRole::kRun, 0, true), HasSubstr("a time of"));
  }
}

TEST(FrameCodec, ChangedBytesAreReadOrRefused) {
  const std::string whole = *EncodeMessage(FrameCodec::kJson, EvaluateFrame());
  PhiloxStream random(11);
  int refused = 0;
  constexpr int kRounds = 5000;
  for (int round = 0; round < kRounds; ++round) {
    std::string packet = whole;
    for (uint64_t changes = 1 + random.UniformInt(4); changes > 0; --changes) {
      const size_t at = random.UniformInt(packet.size());
      switch (random.UniformInt(3)) {
        case 0:
          packet[at] = static_cast<char>(random.UniformInt(256));
          break;
        case 1:
          packet.insert(at, 1, whole[random.UniformInt(whole.size())]);
          break;
        default:
          packet.erase(at, 1 + random.UniformInt(16));
      }
    }
    Frame frame;
    const absl::Status status = DecodeMessage(FrameCodec::kJson, packet, &frame);
    if (!status.ok()) ++refused;
    if (status.ok()) {
      EXPECT_TRUE(EncodeMessage(FrameCodec::kJson, frame).ok()) << packet;
    }
  }
  EXPECT_GT(refused, kRounds / 2);
  EXPECT_LT(refused, kRounds);
}

}  // namespace
}  // namespace tunefarm
