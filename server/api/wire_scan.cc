#include "server/api/wire_scan.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>

#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

namespace {

// Deeper than any definition that is accepted, and below the parser's own limit of 100.
constexpr int kDepthMax = 64;
// Field numbers of ours are small; what lies above is unknown to the scan.
constexpr int kFieldNumberMax = 4096;
// Arrays double: the last one is at most twice as long as what it holds, and all before it together as long as it.
constexpr size_t kGrowth = 4;
// A string object with its entry in the arena's list of destructors, and the allocator's header of its text.
constexpr size_t kTextBytes = 32 + 16 + 24;
// The least that an array or a map takes as soon as it is not empty.
constexpr size_t kFirstElementBytes = 64;
// A field that is not known is kept: a record of 16 bytes in an array that doubles, and the set that holds it.
constexpr size_t kUnknownBytes = 16 * kGrowth + 32;
// A map entry with a key of text and a value: its node.
constexpr size_t kMapEntryBytes = 128;
// Of a message in an array or a map: the pointer to it, or its place in the table, and what alignment costs.
constexpr size_t kElementBytes = 8 * kGrowth + 64;

// Errors of a kernel whose output is NaN or infinite are reported as they are.
bool MayBeInfinite(const FieldDescriptor& field) {
  const std::string& name = field.full_name();
  return name == "tunefarm.v1.Mismatch.actual" || name == "tunefarm.v1.Mismatch.expected" ||
         name == "tunefarm.v1.Verification.max_absolute_error" || name == "tunefarm.v1.Verification.max_relative_error";
}

}  // namespace

// All shapes that were asked for. Those that are made stay, and refer to each other.
class WireShapes {
 public:
  const WireShape* Get(const Descriptor* type) LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return Make(type);
  }

 private:
  const WireShape* Make(const Descriptor* type) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [known, is_new] = shapes_.try_emplace(type);
    if (!is_new) return known->second.get();
    known->second.reset(new WireShape);
    WireShape* const shape = known->second.get();
    // The entry of a map has no object of its own kind that could be asked.
    shape->bytes_ = type->options().map_entry()
                        ? kMapEntryBytes
                        : google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->SpaceUsedLong();
    int last = 0;
    for (int i = 0; i < type->field_count(); ++i) {
      last = std::max(last, type->field(i)->number());
      if (type->field(i)->is_repeated()) shape->bytes_ += kFirstElementBytes;
    }
    shape->fields_.resize(static_cast<size_t>(std::min(last, kFieldNumberMax)) + 1);
    for (int i = 0; i < type->field_count(); ++i) {
      if (type->field(i)->number() > kFieldNumberMax) continue;
      shape->fields_[static_cast<size_t>(type->field(i)->number())] = FieldOf(*type->field(i));
    }
    return shape;
  }

  WireShape::Field FieldOf(const FieldDescriptor& descriptor) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    using Kind = WireShape::Field::Kind;
    WireShape::Field field;
    field.is_repeated = descriptor.is_repeated();
    field.wire_type = static_cast<uint8_t>(
        WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(descriptor.type())));
    field.name = descriptor.name().c_str();
    field.kind = Kind::kScalar;
    field.element_bytes = 8;
    switch (descriptor.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        field.element_bytes = 1;
        break;
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_UINT32:
      case FieldDescriptor::CPPTYPE_ENUM:
        field.element_bytes = 4;
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        field.kind = Kind::kFloat;
        field.element_bytes = 4;
        field.may_be_infinite = MayBeInfinite(descriptor);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        field.kind = Kind::kDouble;
        field.may_be_infinite = MayBeInfinite(descriptor);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        field.kind = Kind::kText;
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        field.kind = Kind::kMessage;
        field.message = Make(descriptor.message_type());
        break;
      default:
        break;
    }
    return field;
  }

  Mutex mutex_;
  std::map<const Descriptor*, std::unique_ptr<WireShape>> shapes_ GUARDED_BY(mutex_);
};

const WireShape* WireShape::Of(const Descriptor* type) {
  static WireShapes* const shapes = new WireShapes;
  return shapes->Get(type);
}

namespace {

class Scanner {
 public:
  Scanner(CodedInputStream* input, const WireScanOptions& options) : input_(*input), options_(options) {}

  // `end`: where the message ends, as a position of the input. Limits of the input would say the same at several times
  // the price, which is that of a call that is refused.
  absl::Status Message(const WireShape& shape, int depth, int end) {
    if (depth > kDepthMax) {
      return WithReason(InvalidArgument("the request has messages in messages more than {} deep", kDepthMax),
                        "MESSAGE_INVALID");
    }
    while (input_.CurrentPosition() < end) {
      const uint32_t tag = input_.ReadTagNoLastTag();
      if (tag == 0) return NotTheMessage();
      const WireShape::Field& field = shape.FieldOf(tag >> 3);
      RETURN_IF_ERROR(Value(field, tag & 7, depth, end));
      if (parsed_ > options_.parsed_bytes_max) {
        return WithReason(ResourceExhausted("the request takes more than {} MiB once it is parsed; split it, or leave "
                                            "out empty entries",
                                            options_.parsed_bytes_max >> 20),
                          "MESSAGE_TOO_LARGE");
      }
    }
    return input_.CurrentPosition() == end ? absl::OkStatus() : NotTheMessage();
  }

  void Add(size_t bytes) { parsed_ += bytes; }
  size_t parsed() const { return parsed_; }

 private:
  using Field = WireShape::Field;
  using Kind = WireShape::Field::Kind;

  absl::Status Value(const Field& field, uint32_t wire_type, int depth, int end) {
    if (wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) return Bytes(field, depth, end);
    const bool is_known = field.kind != Kind::kUnknown && field.wire_type == wire_type;
    Add(!is_known ? kUnknownBytes : field.is_repeated ? field.element_bytes * kGrowth : 0);
    switch (wire_type) {
      case WireFormatLite::WIRETYPE_VARINT: {
        uint64_t ignored = 0;
        return input_.ReadVarint64(&ignored) ? absl::OkStatus() : NotTheMessage();
      }
      case WireFormatLite::WIRETYPE_FIXED64: {
        uint64_t bits = 0;
        if (!input_.ReadLittleEndian64(&bits)) return NotTheMessage();
        return field.kind == Kind::kDouble ? Finite(field, std::bit_cast<double>(bits)) : absl::OkStatus();
      }
      case WireFormatLite::WIRETYPE_FIXED32: {
        uint32_t bits = 0;
        if (!input_.ReadLittleEndian32(&bits)) return NotTheMessage();
        return field.kind == Kind::kFloat ? Finite(field, std::bit_cast<float>(bits)) : absl::OkStatus();
      }
      default:
        return NotTheMessage();  // groups, which no message of ours has
    }
  }

  absl::Status Bytes(const Field& field, int depth, int end) {
    uint32_t length = 0;
    if (!input_.ReadVarint32(&length) || length > static_cast<uint32_t>(INT32_MAX)) return NotTheMessage();
    const int size = static_cast<int>(length);
    switch (field.kind) {
      case Kind::kMessage:
        if (size > end - input_.CurrentPosition()) return NotTheMessage();
        Add(field.message->bytes() + kElementBytes);
        return Message(*field.message, depth + 1, input_.CurrentPosition() + size);
      case Kind::kScalar:
      case Kind::kFloat:
      case Kind::kDouble:
        return Packed(field, size);
      case Kind::kText:
        Add(kTextBytes + length + (field.is_repeated ? 8 * kGrowth : 0));
        return input_.Skip(size) ? absl::OkStatus() : NotTheMessage();
      case Kind::kUnknown:
        Add(kUnknownBytes + kTextBytes + length);
        return input_.Skip(size) ? absl::OkStatus() : NotTheMessage();
    }
    return NotTheMessage();
  }

  absl::Status Packed(const Field& field, int size) {
    if (!field.is_repeated) {
      Add(kUnknownBytes + kTextBytes + static_cast<size_t>(size));
      return input_.Skip(size) ? absl::OkStatus() : NotTheMessage();
    }
    if (field.wire_type == WireFormatLite::WIRETYPE_VARINT) return PackedVarints(field, size);
    const size_t least = field.element_bytes;
    if (field.kind == Kind::kScalar || !options_.finite_only || field.may_be_infinite) {
      Add(static_cast<size_t>(size) / least * field.element_bytes * kGrowth);
      return input_.Skip(size) ? absl::OkStatus() : NotTheMessage();
    }
    for (size_t left = static_cast<size_t>(size); left > 0; left -= least) {
      if (left < least) return NotTheMessage();
      RETURN_IF_ERROR(
          Value(field, least == 8 ? WireFormatLite::WIRETYPE_FIXED64 : WireFormatLite::WIRETYPE_FIXED32, 0, 0));
    }
    return absl::OkStatus();
  }

  // The last byte of each has no high bit.
  absl::Status PackedVarints(const Field& field, int size) {
    while (size > 0) {
      const void* data = nullptr;
      int length = 0;
      if (!input_.GetDirectBufferPointer(&data, &length)) return NotTheMessage();
      length = std::min(length, size);
      const auto* const bytes = static_cast<const uint8_t*>(data);
      const auto count = std::count_if(bytes, bytes + length, [](uint8_t byte) { return byte < 0x80; });
      Add(static_cast<size_t>(count) * field.element_bytes * kGrowth);
      input_.Skip(length);
      size -= length;
    }
    return absl::OkStatus();
  }

  absl::Status Finite(const Field& field, double value) const {
    if (!options_.finite_only || field.may_be_infinite || std::isfinite(value)) return absl::OkStatus();
    return WithReason(InvalidArgument("the field {} is {}; it must be a finite number", field.name,
                                      std::isnan(value) ? "NaN" : (value > 0 ? "infinite" : "minus infinity")),
                      "NUMBER_INVALID");
  }

  CodedInputStream& input_;
  const WireScanOptions& options_;
  size_t parsed_ = 0;
};

}  // namespace

absl::Status NotTheMessage() {
  return WithReason(InvalidArgument("the request cannot be read: it is no message of the type that the call takes"),
                    "MESSAGE_INVALID");
}

absl::StatusOr<size_t> ScanMessage(const WireShape& shape, CodedInputStream* input, int size,
                                   const WireScanOptions& options) {
  Scanner scanner(input, options);
  scanner.Add(shape.bytes());
  RETURN_IF_ERROR(scanner.Message(shape, 0, size));
  return scanner.parsed();
}

}  // namespace tunefarm
