// The layout of package files: tuned kernels that libtunefarm-launch maps and launches. Written by `tunefarm export
// package`.
//
// All numbers are little-endian; floating-point numbers are IEEE doubles; every section begins at a multiple of 8
// bytes, DATA at a multiple of 64. Records refer to each other by their number in their section; texts by their number
// in STRINGS. Readers refuse another version, and check everything else, too: a file from anywhere is refused with a
// sentence or read correctly, never more. What a binary does when it runs is beyond any check.
//
//   header, 320 bytes
//     0   8  "TFPACK\r\n"
//     8   4  version, 1
//     12  4  header bytes, 320
//     16  8  file bytes
//     24  8  XXH3-64 of all bytes from 32 on
//     32  8  when it was made, milliseconds since 1970 UTC
//     40  8  reserved, 0
//     48 16  one {offset, count} for each section, in the order of Header
//
// A kernel has dims and choices. A choice is a config for one problem on one device class, with its binary, its buffers
// and its steps. What a step needs and only the launch can know is a formula over slots:
//   slots 0 to kDims - 1        the kernel's dims in order; only those with bind kRun are read
//   then kDeviceSlots slots     the device's properties, in the order of DeviceSlot
//   then kKernelSlots slots     what the loader says of the step's entry, in the order of KernelSlot
// A formula is a program of the machine of server/expression/machine.h; operations have the numbers of its Op, which
// never change. A dim's slot holds the value of the launch, or of the problem that the kernel was loaded for; the
// device's, those of the device that it runs on.
//
// The checksum finds accidents, not malice: who may write the file may choose what it says.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tunefarm::package {

static_assert(std::endian::native == std::endian::little, "package files are read where they lie");

inline constexpr char kMagic[8] = {'T', 'F', 'P', 'A', 'C', 'K', '\r', '\n'};
inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kChecksumFrom = 32;
inline constexpr uint32_t kNone = 0xffff'ffff;

// What a file may hold at most; the writer refuses more.
inline constexpr uint64_t kFileBytesMax = uint64_t{4} << 30;
inline constexpr uint32_t kStringBytesMax = 64 << 10;
inline constexpr uint32_t kDimsMax = 32;
inline constexpr uint32_t kBuffersMax = 64;
inline constexpr uint32_t kStepsMax = 48;
inline constexpr uint32_t kArgumentsMax = 64;
inline constexpr uint32_t kInstructionsMax = 8192;  // of one formula
inline constexpr uint32_t kParametersMax = 256;     // of one choice
inline constexpr uint32_t kConstraintsMax = 1024;   // of one choice
inline constexpr uint32_t kChoicesMax = 64 << 10;   // of all kernels
inline constexpr uint32_t kDimValuesMax = 64;       // of one dim; as many bounds
// Buffers, steps, arguments and constraints of all choices; those that choices share count for each of them. What a
// small file may describe is bounded so, and with it the time that readers take.
inline constexpr uint32_t kReferencesMax = 16 << 20;

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
  int64_t made_at_ms;
  uint64_t reserved;
  Section strings;       // StringRecord
  Section text;          // bytes
  Section kernels;       // KernelRecord
  Section dims;          // DimRecord
  Section values;        // ValueRecord
  Section choices;       // ChoiceRecord
  Section pairs;         // PairRecord
  Section buffers;       // BufferRecord
  Section steps;         // StepRecord
  Section arguments;     // ArgumentRecord
  Section tensor_maps;   // TensorMapRecord
  Section formulas;      // FormulaRecord
  Section instructions;  // InstructionRecord
  Section classes;       // ClassRecord
  Section binaries;      // BinaryRecord
  Section data;          // bytes of binaries
  Section reserved_section;
};
static_assert(sizeof(Header) == 320);

struct StringRecord {
  uint32_t offset;  // in TEXT
  uint32_t bytes;   // without the zero byte that follows
};
static_assert(sizeof(StringRecord) == 8);

enum ValueKind : uint32_t {
  kBool = 0,    // payload: 0 or 1
  kInt = 1,     // payload: two's complement
  kFloat = 2,   // payload: its bits
  kString = 3,  // payload: string
};

struct ValueRecord {
  uint32_t kind;
  uint32_t reserved;  // 0
  uint64_t payload;
};
static_assert(sizeof(ValueRecord) == 16);

struct PairRecord {
  uint32_t name;   // string
  uint32_t value;  // value
};
static_assert(sizeof(PairRecord) == 8);

enum Language : uint32_t { kCuda = 1, kHost = 2 };

struct KernelRecord {
  uint32_t name, kernel_id, program_digest;  // strings; the ids in hex
  uint32_t language;
  uint32_t first_dim, dims;
  uint32_t first_choice, choices;  // of equally good ones the first answers
  double lookup_distance_max;
};
static_assert(sizeof(KernelRecord) == 40);

enum DimBind : uint32_t { kBaked = 1, kRun = 2 };
// As tunefarm.v1.LookupRule. Of the kProduct dims only the product counts: they have one distance together,
// |log2(a / b)| of the products, which are bounded by the greatest int64.
enum DimRule : uint32_t { kExact = 1, kLog = 2, kBucket = 3, kNextPowerOfTwo = 4, kProduct = 5 };

// Dims that only describe the inputs of a tuning are left out.
struct DimRecord {
  uint32_t name;  // string
  uint32_t kind;  // ValueKind
  uint32_t bind;
  uint32_t rule;
  int64_t min, max;              // of an int without values
  uint32_t first_value, values;  // allowed ones; none: a range
  uint32_t default_value;        // value, or kNone
  uint32_t first_bound, bounds;  // values, ascending ints: inclusive upper bounds of the buckets of kBucket
  uint32_t reserved;             // 0
};
static_assert(sizeof(DimRecord) == 56);

// The class that a choice was tuned on. Numbers in the order of DeviceSlot.
enum DeviceSlot : uint32_t {
  kComputeCapability,  // times ten; 0 for a CPU
  kSmCount,
  kRegistersPerSm,
  kRegistersPerBlock,
  kSharedBytesPerSm,
  kSharedBytesPerBlock,
  kSharedBytesPerBlockOptin,
  kReservedSharedBytesPerBlock,
  kThreadsPerSm,
  kThreadsPerBlock,
  kWarpSize,
  kBlocksPerSm,
  kL2Bytes,
  kL1Bytes,
  kMemoryGib,
  kGridMaxX,
  kGridMaxY,
  kGridMaxZ,
  kBlockMaxX,
  kBlockMaxY,
  kBlockMaxZ,
  kDeviceSlots
};
// The names of the slots in expressions.
inline constexpr const char* kDeviceSlotNames[kDeviceSlots] = {
    "device.compute_capability",
    "device.sm_count",
    "device.registers_per_sm",
    "device.registers_per_block",
    "device.shared_bytes_per_sm",
    "device.shared_bytes_per_block",
    "device.shared_bytes_per_block_optin",
    "device.reserved_shared_bytes_per_block",
    "device.threads_per_sm",
    "device.threads_per_block",
    "device.warp_size",
    "device.blocks_per_sm",
    "device.l2_bytes",
    "device.l1_bytes",
    "device.memory_gib",
    "device.grid_max_x",
    "device.grid_max_y",
    "device.grid_max_z",
    "device.block_max_x",
    "device.block_max_y",
    "device.block_max_z",
};
enum KernelSlot : uint32_t { kMaxActiveBlocks, kRegisters, kStaticSharedBytes, kKernelSlots };
inline constexpr const char* kKernelSlotNames[kKernelSlots] = {"kernel.max_active_blocks", "kernel.registers",
                                                               "kernel.static_shared_bytes"};

struct ClassRecord {
  uint32_t id;    // string: DeviceClass::Id
  uint32_t name;  // string: "NVIDIA H100 80GB HBM3", or the CPU's model name
  int64_t properties[kDeviceSlots];
};
static_assert(sizeof(ClassRecord) == 8 + 8 * kDeviceSlots);

enum ChoiceKind : uint32_t { kTuned = 1, kDefault = 2 };

struct ChoiceRecord {
  uint32_t kind;
  uint32_t device_class;
  uint32_t first_dim_value;  // values: one for each dim of the kernel
  uint32_t first_parameter;  // pairs, sorted by name
  uint32_t parameters;
  uint32_t binary;                   // kNone: no step needs one
  uint32_t first_buffer, buffers;    // the caller's (in, out, inout, symbols) first, in declared order, alike in all
                                     // choices of a kernel but for their lengths, and for types that baked dims decide;
                                     // then scratch
  uint32_t first_prepare, prepares;  // steps that run once for the config, on the caller's buffers
  uint32_t first_step, steps;        // the launches
  uint32_t first_constraint, constraints;  // formulas, bools: what must hold for the run-time dims
  uint64_t layout;   // of the buffers after the prepare steps: equal numbers, equal layouts; 0: none run
  double median_ns;  // of the tuned problem; 0: not measured
};
static_assert(sizeof(ChoiceRecord) == 72);

// As tunefarm.v1.Access.
enum BufferAccess : uint32_t { kIn = 1, kOut = 2, kInOut = 3, kScratch = 4 };
enum BufferInit : uint32_t {
  kUntouched = 0,
  kZero = 1,  // zero bytes before each launch
  kFill = 2,  // `fill` in every element before each launch
};

struct BufferRecord {
  uint32_t name;       // string
  uint32_t data_type;  // tunefarm.v1.DataType
  uint32_t access;
  uint32_t init;
  uint32_t length;  // formula, an int: elements, at least 1
  uint32_t symbol;  // string: the __constant__ variable that gets the caller's data, or kNone
  uint64_t fill;    // the bits of one element
};
static_assert(sizeof(BufferRecord) == 32);

enum StepKind : uint32_t { kKernelStep = 1, kMemsetStep = 2 };
enum StepFlags : uint32_t {
  kCooperative = 1,
  kProgrammaticStreamSerialization = 2,
  kNonPortableCluster = 4,
};

struct StepRecord {
  uint32_t kind;
  uint32_t when;   // formula, a bool; kNone: always
  uint32_t entry;  // string: the symbol in the binary
  uint32_t flags;
  uint32_t grid[3];  // formulas, ints; kNone: 1, but for the first; a CPU has none
  uint32_t block[3];
  uint32_t cluster[3];            // kNone: no cluster
  uint32_t dynamic_shared_bytes;  // formula, an int; kNone: 0
  uint32_t carveout;              // percent; 0: the driver's default
  uint32_t first_argument, arguments;
  uint32_t memset_buffer;  // of the choice
  uint32_t memset_byte;
  uint32_t reserved;  // 0
};
static_assert(sizeof(StepRecord) == 80);

enum ArgumentKind : uint32_t { kBufferArgument = 1, kScalarArgument = 2, kTensorMapArgument = 3 };

struct ArgumentRecord {
  uint32_t kind;
  uint32_t target;     // a buffer of the choice, a formula or a tensor map
  uint32_t data_type;  // of a scalar
};
static_assert(sizeof(ArgumentRecord) == 12);

struct TensorMapRecord {
  uint32_t buffer;  // of the choice
  uint32_t data_type;
  uint32_t rank;                                                  // 1 to 5
  uint32_t dims[5], byte_strides[4], box[5], element_strides[5];  // formulas, ints; kNone beyond the rank
  uint32_t swizzle, interleave, l2_promotion;                     // formulas, strings: 'none', '128B', ...
  uint32_t base_offset_bytes;                                     // formula, an int
  uint32_t oob_fill_nan;                                          // 0 or 1
};
static_assert(sizeof(TensorMapRecord) == 108);

struct FormulaRecord {
  uint32_t first_instruction, instructions;
  uint32_t text;  // string, for messages
};
static_assert(sizeof(FormulaRecord) == 12);

// An instruction of the machine; constants are VALUES.
struct InstructionRecord {
  uint16_t operation;
  uint16_t sub;
  int32_t argument;  // a value, a slot, or a jump's target, counted from the formula's first instruction
};
static_assert(sizeof(InstructionRecord) == 8);

enum BinaryKind : uint32_t { kCubin = 1, kSharedObject = 2 };

struct BinaryRecord {
  uint32_t kind;
  uint32_t digest;              // string: SHA-256 of the bytes, in hex
  uint64_t offset, bytes;       // in DATA; offset at a multiple of 64
  uint32_t compute_capability;  // times ten; 0 for a CPU
  uint32_t is_specific;         // runs on this compute capability alone; of a CPU: on the tuned model alone
  uint32_t toolchain;           // string: "NVRTC 13.0"
  uint32_t driver_version_min;  // 13000 for 13.0, as cuDriverGetVersion counts; 0 for a CPU
};
static_assert(sizeof(BinaryRecord) == 40);

}  // namespace tunefarm::package
