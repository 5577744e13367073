// The header of a .npy file (versions 1.0 to 3.0 of NumPy's format), as far as a buffer can be filled from such a file.
//
// Pure; any thread. The bytes are anybody's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr size_t kNpyHeaderBytesMax = 64 << 10;
// Magic, version, the length of the header, and the longest one that is read.
inline constexpr size_t kNpyStartBytesMax = 12 + kNpyHeaderBytesMax;

struct NpyHeader {
  v1::DataType data_type = v1::DATA_TYPE_UNSPECIFIED;  // unspecified: raw elements
  std::string_view dtype;                              // NumPy's name of it, "f4", of storage that lasts
  int64_t element_bytes = 0;                           // of one element
  int64_t data_offset = 0;                             // where the elements begin
  int64_t data_bytes = 0;                              // of all elements, at least 1
};

// `start`: the first kNpyStartBytesMax bytes of a file of `file_bytes`, or all of it; `name`: what errors call it.
// InvalidArgument, with what to do, for what is no .npy file, damaged, truncated, longer than its elements, empty, of
// objects, of several fields, big-endian, of a type that no buffer has, or in Fortran order with more than one
// dimension.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view start, int64_t file_bytes, const std::string& name);

}  // namespace tunefarm::cli
