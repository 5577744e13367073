// The layout of snapshot files: the bests of a catalog, for programs without a daemon. Made to be mapped into memory
// and read where it lies; written by `tunefarm export snapshot`, read by the C++ client.
//
// All numbers are little-endian; floating-point numbers are IEEE doubles; every section begins at a multiple of 8
// bytes. Texts are referred to by their number in the section STRINGS. Readers refuse another version, and check
// everything else, too: a file from anywhere is refused with a sentence or read correctly, never more.
//
//   header, 128 bytes
//     0   8  "TFSNAP\r\n"
//     8   4  version, 1
//     12  4  header bytes, 128
//     16  8  file bytes
//     24  8  XXH3-64 of all bytes from 32 on
//     32  8  revision of the catalog
//     40  8  when it was made, milliseconds since 1970 UTC
//     48 16  section STRINGS:  offset and count of {u32 offset in TEXT, u32 bytes}
//     64 16  section TEXT:     offset and count of bytes
//     80 16  section KERNELS:  offset and count of KernelRecord
//     96 16  section PAIRS:    offset and count of PairRecord
//    112 16  section BESTS:    offset and count of BestRecord; those of one kernel are together
//
// The checksum finds accidents, not malice: who may write the file may choose what it says.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tunefarm::snapshot {

static_assert(std::endian::native == std::endian::little, "snapshot files are read where they lie");

inline constexpr char kMagic[8] = {'T', 'F', 'S', 'N', 'A', 'P', '\r', '\n'};
inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kChecksumFrom = 32;

// What a file may hold at most; the writer refuses more.
inline constexpr uint64_t kFileBytesMax = uint64_t{1} << 32;
inline constexpr uint32_t kStringBytesMax = 4096;
inline constexpr uint32_t kDimsMax = 32;
inline constexpr uint32_t kParametersMax = 64;

struct Section {
  uint64_t offset;
  uint64_t count;
};

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint64_t checksum;
  int64_t revision;
  int64_t made_at_ms;
  Section strings, text, kernels, pairs, bests;
};
static_assert(sizeof(Header) == 128);

struct StringRecord {
  uint32_t offset;
  uint32_t bytes;
};
static_assert(sizeof(StringRecord) == 8);

struct KernelRecord {
  uint32_t name, kernel_id, program_digest;  // strings
  uint32_t first_dim, dims;                  // pairs: the declared dims with their defaults, or kNone
  uint32_t first_best, bests;
  uint32_t inputs_only;  // bit i: dim i only describes inputs; at most 32 dims
};
static_assert(sizeof(KernelRecord) == 32 && kDimsMax == 32);

enum PairKind : uint32_t {
  kNone = 0,    // payload 0
  kInt = 1,     // payload: two's complement
  kDouble = 2,  // payload: its bits; finite
  kBool = 3,    // payload: 0 or 1
  kString = 4,  // payload: string
};

struct PairRecord {
  uint32_t name;  // string
  uint32_t kind;  // PairKind
  uint64_t payload;
};
static_assert(sizeof(PairRecord) == 16);

// Times in nanoseconds, 0 or more.
struct BestRecord {
  uint32_t kernel;                // its number in KERNELS
  uint32_t class_id, class_name;  // strings, as are the next four
  uint32_t problem, job, driver, toolkit;
  uint32_t first_dim, dims;      // pairs
  uint32_t first_value, values;  // pairs: the config
  uint32_t flags;                // 1: pinned
  double median_ns, ci_low_ns, ci_high_ns, baseline_ns;
  int64_t revision, promoted_at_ms;
};
static_assert(sizeof(BestRecord) == 96);

}  // namespace tunefarm::snapshot
