// WireScan: what a serialized message would take in memory once it is parsed, found without parsing it. Two bytes on
// the wire can be a message of a kilobyte, so the size of what arrives says little.
//
// Shapes are made once per message type and never destroyed. Threads: any.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

// A message type as the scan needs it.
class WireShape {
 public:
  // Of a generated message type.
  static const WireShape* Of(const google::protobuf::Descriptor* type);

  struct Field {
    enum class Kind : uint8_t { kUnknown, kScalar, kFloat, kDouble, kText, kMessage };
    Kind kind = Kind::kUnknown;
    uint8_t wire_type = 0;  // of one; another one is kept as a field that is not known
    bool is_repeated = false;
    bool may_be_infinite = false;        // NaN and infinities are values of it
    uint8_t element_bytes = 0;           // of one scalar in memory
    const WireShape* message = nullptr;  // kMessage
    const char* name = "";               // lives as long as the program
  };

  const Field& FieldOf(uint32_t number) const { return number < fields_.size() ? fields_[number] : unknown_; }
  // Of an empty message in memory.
  size_t bytes() const { return bytes_; }

 private:
  friend class WireShapes;
  WireShape() = default;

  size_t bytes_ = 0;
  std::vector<Field> fields_;  // by number
  const Field unknown_;
};

struct WireScanOptions {
  size_t parsed_bytes_max = 0;
  // Refuse NaN and infinities in fields of which they are no values.
  bool finite_only = true;
};

// The error of bytes that cannot be parsed: InvalidArgument (MESSAGE_INVALID).
absl::Status NotTheMessage();

// At least the bytes that the message takes when it is parsed into an arena, and at most some times as many. Reads the
// `size` bytes of `input`, from its begin. InvalidArgument (MESSAGE_INVALID) for what is no message or nests too
// deeply, (NUMBER_INVALID) for a number that is none; ResourceExhausted (MESSAGE_TOO_LARGE) above parsed_bytes_max.
absl::StatusOr<size_t> ScanMessage(const WireShape& shape, google::protobuf::io::CodedInputStream* input, int size,
                                   const WireScanOptions& options);

}  // namespace tunefarm
