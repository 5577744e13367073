#include "client/cli/data/npy_header.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "client/cli/output.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

constexpr size_t kNpyDimensionsMax = 64;  // as NumPy
constexpr size_t kNpyTypeShownMax = 64;   // bytes of a type's name in a message

struct NpyType {
  std::string_view name;  // without the byte order
  v1::DataType type;      // unspecified: raw
};
// ml_dtypes writes float8_e5m2 as f1, and all its other types of 8 bits as V1.
constexpr std::array<NpyType, 15> kNpyTypes = {{{"i1", v1::DATA_TYPE_I8},
                                                {"i2", v1::DATA_TYPE_I16},
                                                {"i4", v1::DATA_TYPE_I32},
                                                {"i8", v1::DATA_TYPE_I64},
                                                {"u1", v1::DATA_TYPE_U8},
                                                {"u2", v1::DATA_TYPE_U16},
                                                {"u4", v1::DATA_TYPE_U32},
                                                {"u8", v1::DATA_TYPE_U64},
                                                {"b1", v1::DATA_TYPE_U8},
                                                {"f2", v1::DATA_TYPE_F16},
                                                {"f4", v1::DATA_TYPE_F32},
                                                {"f8", v1::DATA_TYPE_F64},
                                                {"V1", v1::DATA_TYPE_UNSPECIFIED},
                                                {"V2", v1::DATA_TYPE_UNSPECIFIED},
                                                {"f1", v1::DATA_TYPE_UNSPECIFIED}}};

// What the header's dictionary says.
struct NpyFields {
  std::optional<std::string> descr;
  bool is_structured = false;  // descr is a list
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// Reads a dictionary of Python with the three keys, in any order and spacing. Functions return false where the text is
// no such dictionary.
class DictionaryReader {
 public:
  explicit DictionaryReader(std::string_view text) : rest_(text) {}

  bool Read(NpyFields* fields) {
    if (!Take('{')) return false;
    while (!Take('}')) {
      if (!ReadEntry(fields)) return false;
      // What follows the fields of a structure is of no interest.
      if (fields->is_structured) return true;
      if (Take(',')) continue;
      if (!Take('}')) return false;
      break;
    }
    SkipSpace();
    return rest_.empty() && fields->descr.has_value() && fields->fortran_order.has_value() && fields->shape.has_value();
  }

 private:
  void SkipSpace() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool Take(char wanted) {
    SkipSpace();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeWord(std::string_view wanted) {
    SkipSpace();
    if (rest_.substr(0, wanted.size()) != wanted) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }

  bool ReadEntry(NpyFields* fields) {
    const std::optional<std::string> key = ReadText();
    if (!key.has_value() || !Take(':')) return false;
    if (*key == "descr" && !fields->descr.has_value()) {
      SkipSpace();
      fields->is_structured = !rest_.empty() && rest_.front() == '[';
      if (fields->is_structured) return true;
      fields->descr = ReadText();
      return fields->descr.has_value();
    }
    if (*key == "fortran_order" && !fields->fortran_order.has_value()) {
      if (TakeWord("True")) fields->fortran_order = true;
      if (!fields->fortran_order.has_value() && TakeWord("False")) fields->fortran_order = false;
      return fields->fortran_order.has_value();
    }
    if (*key != "shape" || fields->shape.has_value()) return false;
    fields->shape = ReadShape();
    return fields->shape.has_value();
  }

  // A text in quotes, without escapes.
  std::optional<std::string> ReadText() {
    SkipSpace();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    if (text.find('\\') != std::string::npos) return std::nullopt;
    return text;
  }

  // "()", "(4,)" or "(2, 3)".
  std::optional<std::vector<int64_t>> ReadShape() {
    if (!Take('(')) return std::nullopt;
    std::vector<int64_t> shape;
    bool has_comma = true;
    while (!Take(')')) {
      int64_t extent = 0;
      SkipSpace();
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (!has_comma || error != std::errc() || extent < 0 || shape.size() == kNpyDimensionsMax) return std::nullopt;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      shape.push_back(extent);
      has_comma = Take(',');
    }
    // "(4)" is a number in brackets.
    if (shape.size() == 1 && !has_comma) return std::nullopt;
    return shape;
  }

  std::string_view rest_;
};

absl::Status NpyTruncated(const std::string& name, const std::string& why) {
  return InvalidArgument("{} is truncated: {}; write or copy it again", name, why);
}

// Fills in type and width of "<f4".
absl::Status ReadNpyType(std::string_view descr, const std::string& name, NpyHeader* header) {
  const bool has_order = !descr.empty() && std::string_view("<>=|").find(descr.front()) != std::string_view::npos;
  const std::string_view kind = has_order ? descr.substr(1) : descr;
  if (kind.substr(0, 1) == "O") {
    return InvalidArgument(
        "{} holds pickled Python objects (dtype object); convert it to numbers, for example by "
        "array.astype(numpy.float32), and save it again",
        name);
  }
  const auto* const found =
      std::find_if(kNpyTypes.begin(), kNpyTypes.end(), [kind](const NpyType& type) { return type.name == kind; });
  if (found == kNpyTypes.end()) {
    return InvalidArgument(
        "{} has elements of dtype '{}', which no buffer has; convert it to integers of 8 to 64 bits or floats of 16 to "
        "64 bits by array.astype, or to a raw type of 1 or 2 bytes by array.view",
        name, Visible(std::string(descr.substr(0, kNpyTypeShownMax))));
  }
  header->data_type = found->type;
  header->dtype = found->name;
  header->element_bytes = kind[1] - '0';
  if (has_order && descr.front() == '>' && header->element_bytes > 1) {
    return InvalidArgument("{} is big-endian (dtype '{}'); save array.astype(array.dtype.newbyteorder('<')) instead",
                           name, descr);
  }
  return absl::OkStatus();
}

// The product, or the largest number where it does not fit.
int64_t NpyBytes(const std::vector<int64_t>& shape, int64_t element_bytes) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t bytes = element_bytes;
  for (const int64_t extent : shape) {
    if (bytes > std::numeric_limits<int64_t>::max() / extent) return std::numeric_limits<int64_t>::max();
    bytes *= extent;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view start, int64_t file_bytes, const std::string& name) {
  if (start.substr(0, kNpyMagic.size()) != kNpyMagic) {
    return InvalidArgument(
        "{} is no .npy file: it does not begin with \\x93NUMPY; write it by numpy.save, or give a file of raw elements "
        "a name that does not end in .npy",
        name);
  }
  const auto byte = [start](size_t at) { return static_cast<size_t>(static_cast<unsigned char>(start[at])); };
  if (start.size() < 8) return NpyTruncated(name, "its header is incomplete");
  const size_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    return InvalidArgument("{} has version {}.{} of the .npy format; 1.0 to 3.0 are read: save it again by numpy.save",
                           name, major, minor);
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (start.size() < 8 + length_bytes) return NpyTruncated(name, "its header is incomplete");
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) length = length << 8 | byte(8 + i);
  if (length > kNpyHeaderBytesMax) {
    return InvalidArgument("{} has a .npy header of {} bytes; at most {} are read: save a plain array by numpy.save",
                           name, length, kNpyHeaderBytesMax);
  }
  const std::string_view text = start.substr(8 + length_bytes, length);
  if (text.size() < length) return NpyTruncated(name, "its header is incomplete");
  NpyFields fields;
  if (!DictionaryReader(text).Read(&fields)) {
    return InvalidArgument(
        "{} has a damaged .npy header: it is no dictionary of descr, fortran_order and shape; save it again by "
        "numpy.save",
        name);
  }
  if (fields.is_structured) {
    return InvalidArgument(
        "{} has a structured dtype; save each field as a file of its own, for example "
        "numpy.ascontiguousarray(array['x'])",
        name);
  }
  NpyHeader header;
  RETURN_IF_ERROR(ReadNpyType(*fields.descr, name, &header));
  const auto long_extents = std::count_if(fields.shape->begin(), fields.shape->end(), [](int64_t e) { return e != 1; });
  if (*fields.fortran_order && long_extents > 1) {
    return InvalidArgument("{} is in Fortran order; save numpy.ascontiguousarray(array) instead", name);
  }
  header.data_offset = static_cast<int64_t>(8 + length_bytes + length);
  header.data_bytes = NpyBytes(*fields.shape, header.element_bytes);
  if (header.data_bytes == 0) return InvalidArgument("{} holds no elements: an extent of its shape is 0", name);
  const int64_t follow = file_bytes - header.data_offset;
  if (header.data_bytes > follow) {
    return NpyTruncated(
        name, fmt::format("its header promises {} bytes of elements, and {} follow", header.data_bytes, follow));
  }
  if (header.data_bytes < follow) {
    return InvalidArgument("{} has {} bytes behind its elements; write one array to a file by numpy.save", name,
                           follow - header.data_bytes);
  }
  return header;
}

}  // namespace tunefarm::cli
