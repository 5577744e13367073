// What the scan of a serialized message says of its size in memory, against the messages themselves.
#include "server/api/wire_scan.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/random.h"
#include "server/base/status.h"
#include "tunefarm/agent/v1/agent.pb.h"
#include "tunefarm/v1/kernel_service.pb.h"
#include "tunefarm/v1/lookup_service.pb.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::io::CodedInputStream;
using testing::HasSubstr;

using Random = PhiloxStream;

absl::StatusOr<size_t> Scan(const Message& type, const std::string& wire, size_t bytes_max = size_t{1} << 40,
                            bool finite_only = false) {
  const int size = static_cast<int>(wire.size());
  CodedInputStream input(reinterpret_cast<const uint8_t*>(wire.data()), size);
  return ScanMessage(*WireShape::Of(type.GetDescriptor()), &input, size, {bytes_max, finite_only});
}

const Message* Types(size_t index) {
  static const Message* const types[] = {
      &v1::CreateJobRequest::default_instance(),          &v1::CreateKernelRequest::default_instance(),
      &v1::BatchLookupConfigsRequest::default_instance(), &v1::LookupConfigRequest::default_instance(),
      &agent::v1::RegisterRequest::default_instance(),    &agent::v1::ReportUnitsRequest::default_instance(),
      &agent::v1::SynchronizeRequest::default_instance()};
  return types[index % std::size(types)];
}

std::string Text(Random* random) { return std::string(random->UniformInt(random->UniformInt(2) == 0 ? 8 : 200), 'x'); }

// Sets fields at random, `width` entries in most of what repeats.
void FillRandomly(Message* message, int depth, size_t width, Random* random) {
  const auto* const reflection = message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message->GetDescriptor()->field(i);
    if (random->UniformInt(3) == 0) continue;
    const size_t count = field->is_repeated() ? random->UniformInt(width + 1) : 1;
    for (size_t k = 0; k < count; ++k) {
      const bool adds = field->is_repeated();
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_INT32:
          adds ? reflection->AddInt32(message, field, 1) : reflection->SetInt32(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_INT64:
          adds ? reflection->AddInt64(message, field, 1) : reflection->SetInt64(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_UINT32:
          adds ? reflection->AddUInt32(message, field, 1) : reflection->SetUInt32(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_UINT64:
          adds ? reflection->AddUInt64(message, field, 1) : reflection->SetUInt64(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_DOUBLE:
          adds ? reflection->AddDouble(message, field, 1) : reflection->SetDouble(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_FLOAT:
          adds ? reflection->AddFloat(message, field, 1) : reflection->SetFloat(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_BOOL:
          adds ? reflection->AddBool(message, field, true) : reflection->SetBool(message, field, true);
          break;
        case FieldDescriptor::CPPTYPE_ENUM:
          adds ? reflection->AddEnumValue(message, field, 1) : reflection->SetEnumValue(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_STRING:
          adds ? reflection->AddString(message, field, Text(random))
               : reflection->SetString(message, field, Text(random));
          break;
        case FieldDescriptor::CPPTYPE_MESSAGE:
          if (depth > 6) break;
          FillRandomly(adds ? reflection->AddMessage(message, field) : reflection->MutableMessage(message, field),
                       depth + 1, width / 2, random);
          break;
      }
    }
  }
}

void ExpectCovered(const Message& type, const std::string& wire, const std::string& what) {
  const absl::StatusOr<size_t> estimate = Scan(type, wire);
  ASSERT_TRUE(estimate.ok()) << what << ": " << estimate.status();
  const std::unique_ptr<Message> parsed(type.New());
  ASSERT_TRUE(parsed->ParseFromString(wire)) << what;
  EXPECT_GE(*estimate, parsed->SpaceUsedLong())
      << what << " " << type.GetTypeName() << " of " << wire.size() << " bytes";
}

TEST(WireScanTest, TheEstimateCoversWhatRandomMessagesTake) {
  Random random(1);
  for (size_t i = 0; i < 2000; ++i) {
    const std::unique_ptr<Message> message(Types(i)->New());
    FillRandomly(message.get(), 0, i % 24, &random);
    ExpectCovered(*message, message->SerializeAsString(), "random " + std::to_string(i));
  }
}

TEST(WireScanTest, TheEstimateCoversAnyFieldRepeatedOften) {
  // Known fields, also with a wire type that is not theirs, and one that nobody knows (2047); empty or of one byte.
  for (size_t type = 0; type < 7; ++type) {
    for (const int number : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 2047}) {
      for (const auto& [wire_type, value] : std::vector<std::pair<int, std::string>>{{0, "\x01"},
                                                                                     {1, std::string(8, '\0')},
                                                                                     {2, std::string(1, '\0')},
                                                                                     {2, "\x01x"},
                                                                                     {5, std::string(4, '\0')}}) {
        std::string field;
        for (int tag = number << 3 | wire_type; true; tag >>= 7) {
          field += static_cast<char>((tag & 0x7f) | (tag > 0x7f ? 0x80 : 0));
          if (tag <= 0x7f) break;
        }
        field += value;
        for (const int count : {1, 2, 5000}) {
          std::string wire;
          for (int i = 0; i < count; ++i) wire += field;
          const std::unique_ptr<Message> parsed(Types(type)->New());
          if (!Scan(*Types(type), wire).ok() || !parsed->ParseFromString(wire)) continue;
          ExpectCovered(*Types(type), wire, fmt::format("field {} of wire type {}", number, wire_type));
        }
      }
    }
  }
}

TEST(WireScanTest, BytesThatAreNoMessageHarmNobody) {
  google::protobuf::LogSilencer silencer;  // texts that are no UTF-8
  Random random(2);
  for (size_t i = 0; i < 20'000; ++i) {
    const Message& type = *Types(i);
    std::string wire;
    if (i % 2 == 0) {
      const std::unique_ptr<Message> message(type.New());
      FillRandomly(message.get(), 0, 3, &random);
      wire = message->SerializeAsString();
      for (int k = 0; k < 3 && !wire.empty(); ++k)
        wire[random.UniformInt(wire.size())] = static_cast<char>(random.NextU32());
      if (i % 4 == 0) wire.resize(wire.size() / 2);
    } else {
      for (size_t k = random.UniformInt(60); k > 0; --k) wire += static_cast<char>(random.NextU32());
    }
    const absl::StatusOr<size_t> estimate = Scan(type, wire);
    const std::unique_ptr<Message> parsed(type.New());
    const bool is_parsed = parsed->ParseFromString(wire);
    if (!estimate.ok()) {
      EXPECT_EQ(ReasonOf(estimate.status()), "MESSAGE_INVALID");
    } else if (is_parsed) {
      EXPECT_GE(*estimate, parsed->SpaceUsedLong()) << i;
    }
  }
}

TEST(WireScanTest, WhatExplodesIsRefusedBeforeItIsParsed) {
  std::string wire;
  // Empty parameters of a kernel.
  v1::CreateKernelRequest request;
  request.mutable_kernel()->add_parameters();
  const std::string entry = request.kernel().SerializeAsString();
  while (wire.size() < (15 << 20)) wire += entry;
  const absl::StatusOr<size_t> all = Scan(v1::Kernel::default_instance(), wire);
  ASSERT_TRUE(all.ok());
  EXPECT_GT(*all, wire.size() * 20);
  const absl::Status refused = Scan(v1::Kernel::default_instance(), wire, 64 << 20).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), "MESSAGE_TOO_LARGE");
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("64 MiB"));
  // The largest honest kernel is far from it.
  request.mutable_kernel()->add_sources()->set_content(std::string(8 << 20, ' '));
  EXPECT_TRUE(Scan(request, request.SerializeAsString(), 16 << 20).ok());
}

TEST(WireScanTest, TheLargestBatchOfLookupsIsTaken) {
  v1::BatchLookupConfigsRequest batch;
  for (int dim = 0; dim < 32; ++dim) {
    v1::DimColumn* const column = batch.add_columns();
    column->set_dim("D" + std::to_string(dim));
    for (int i = 0; i < 10'000; ++i) column->add_ints(std::numeric_limits<int64_t>::min() + i);
  }
  const auto scanned = Scan(batch, batch.SerializeAsString(), 64 << 20);
  ASSERT_TRUE(scanned.ok()) << scanned.status();
  ExpectCovered(batch, batch.SerializeAsString(), "batch");
}

TEST(WireScanTest, MessagesInMessagesEnd) {
  std::string wire;
  for (int i = 0; i < 200; ++i) {
    std::string outer(1, '\x0a');
    for (size_t size = wire.size(); true; size >>= 7) {
      outer += static_cast<char>((size & 0x7f) | (size > 0x7f ? 0x80 : 0));
      if (size <= 0x7f) break;
    }
    wire = outer + wire;
  }
  // google.protobuf.DescriptorProto would nest (field 3); ours do not, so that this ends as an unknown field or a text.
  for (size_t type = 0; type < 7; ++type) {
    const auto scanned = Scan(*Types(type), wire);
    EXPECT_TRUE(scanned.ok() || ReasonOf(scanned.status()) == "MESSAGE_INVALID");
  }
}

TEST(WireScanTest, NumbersThatAreNoneAreNamed) {
  for (const double bad :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    v1::CreateJobRequest request;
    request.mutable_job()->mutable_budget()->set_max_device_seconds(bad);
    const absl::Status refused = Scan(request, request.SerializeAsString(), 1 << 20, true).status();
    EXPECT_EQ(ReasonOf(refused), "NUMBER_INVALID");
    EXPECT_THAT(std::string(MessageOf(refused)), testing::StartsWith("the field max_device_seconds is "));
    v1::LookupConfigRequest lookup;
    (*lookup.mutable_problem()->mutable_dims())["N"].set_double_value(bad);
    EXPECT_EQ(ReasonOf(Scan(lookup, lookup.SerializeAsString(), 1 << 20, true).status()), "NUMBER_INVALID");
    EXPECT_TRUE(Scan(lookup, lookup.SerializeAsString(), 1 << 20, false).ok());
    v1::CreateKernelRequest kernel;
    kernel.mutable_kernel()->add_parameters()->mutable_values()->add_doubles(bad);
    EXPECT_EQ(ReasonOf(Scan(kernel, kernel.SerializeAsString(), 1 << 20, true).status()), "NUMBER_INVALID");
    // What a kernel computed wrongly may be anything.
    agent::v1::ReportUnitsRequest report;
    report.add_reports()->add_trials()->mutable_verification()->add_first_mismatches()->set_actual(bad);
    EXPECT_TRUE(Scan(report, report.SerializeAsString(), 1 << 20, true).ok());
  }
}

TEST(WireScanTest, NothingReachesBeyondTheMessageThatItIsIn) {
  // In CreateJobRequest: `job` (1) of 2 bytes, in it `uid` (2), `problems` (5) or `agent_losses_max` (26), which reach
  // into what follows the job, a request_id (3).
  const std::string after(
      "\x1a\x04"
      "abcd",
      6);
  for (const std::string& within :
       {std::string("\x12\x03", 2), std::string("\x2a\x02", 2), std::string("\xd0\x01", 2)}) {
    EXPECT_EQ(ReasonOf(Scan(v1::CreateJobRequest(), std::string("\x0a\x02", 2) + within + after).status()),
              "MESSAGE_INVALID");
  }
  EXPECT_TRUE(Scan(v1::CreateJobRequest(), std::string("\x0a\x02\x12\x00", 4) + after).ok());
}

TEST(WireScanTest, PiecesOfAMessageAreReadAsOne) {
  Random random(3);
  v1::CreateJobRequest request;
  FillRandomly(&request, 0, 20, &random);
  const std::string wire = request.SerializeAsString();
  google::protobuf::io::ArrayInputStream pieces(wire.data(), static_cast<int>(wire.size()), 7);
  CodedInputStream input(&pieces);
  const auto scanned = ScanMessage(*WireShape::Of(request.GetDescriptor()), &input, static_cast<int>(wire.size()),
                                   {size_t{1} << 40, false});
  ASSERT_TRUE(scanned.ok()) << scanned.status();
  EXPECT_EQ(*scanned, *Scan(request, wire));
}

}  // namespace
}  // namespace tunefarm
