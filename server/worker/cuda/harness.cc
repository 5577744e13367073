#include "server/worker/cuda/harness.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "server/base/embedded_file.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/verify/expected_file.h"
#include "server/worker/verify/poison.h"

namespace tunefarm {
extern const EmbeddedFile kHarnessFiles[];
extern const size_t kHarnessFilesCount;
}  // namespace tunefarm

namespace tunefarm::cuda {
namespace {

constexpr unsigned int kThreadsPerBlock = 256;
constexpr uint64_t kBlocksPerSm = 8;
// Rows longer than this are summed by the whole device, one after the other.
constexpr uint64_t kRowOfOneBlockMax = uint64_t{1} << 20;
constexpr const char* kFailed = "A check on the device failed";

constexpr const char* kKernels[] = {"tunefarm_fill",        "tunefarm_poison",       "tunefarm_fill_guard",
                                    "tunefarm_check_guard", "tunefarm_checksum",     "tunefarm_compare",
                                    "tunefarm_largest",     "tunefarm_rows",         "tunefarm_row_sums",
                                    "tunefarm_find_bits",   "tunefarm_health_write", "tunefarm_health_sum"};

// See CheckHealth: one wave of threads on a large device, long enough to be timed.
constexpr uint64_t kHealthWords = uint64_t{1} << 18;
constexpr int kHealthSteps = 2048;
constexpr int kHealthRunsMin = 5;
// Clocks that rise from rest make it faster meanwhile.
constexpr int kHealthRunsMax = 100;
constexpr uint64_t kHealthSeed = 0x243f6a8885a308d3;
constexpr uint64_t kHealthFactor = 6364136223846793005, kHealthAddend = 1442695040888963407;

// The sum of what tunefarm_health_write writes. After k steps of x = a * x + c a word is A * x + C, with A and C found
// by taking the steps once.
uint64_t HealthSum() {
  uint64_t factor = 1, addend = 0;
  for (int step = 0; step < kHealthSteps; ++step) {
    factor *= kHealthFactor;
    addend = addend * kHealthFactor + kHealthAddend;
  }
  const uint64_t starts = kHealthWords * kHealthSeed + kHealthWords * (kHealthWords - 1) / 2;
  return factor * starts + addend * kHealthWords;
}

// Other sources or options make another binary.
std::string SourceKey(int compute_capability) {
  const NvrtcInput input = HarnessSource(compute_capability);
  std::string text = input.source;
  for (const std::string& option : input.options) text += "\n" + option;
  return Sha256(text).Hex();
}

}  // namespace

NvrtcInput HarnessSource(int compute_capability) {
  NvrtcInput input;
  input.name = "harness.cu";
  for (const char* function : {"PHILOX", "E4M3", "HALF", "FILL"}) {
    input.source += fmt::format("#define TUNEFARM_{}_FUNCTION static __device__ inline\n", function);
  }
  // In the order of kHarnessFiles, which CMake fixes. Their include guards mean nothing in one pasted text.
  for (size_t i = 0; i < kHarnessFilesCount; ++i) {
    std::string text(kHarnessFiles[i].bytes);
    const size_t guard = text.find("#pragma once");
    if (guard != std::string::npos) text.erase(guard, 12);
    input.source += fmt::format("#line 1 \"{}\"\n", kHarnessFiles[i].name) + text + "\n";
  }
  input.options = {fmt::format("--gpu-architecture=sm_{}", compute_capability), "--fmad=false", "--std=c++17"};
  return input;
}

absl::StatusOr<HarnessBinary> HarnessBinary::Compile(int compute_capability, const Nvrtc& nvrtc) {
  const NvrtcOutput output = nvrtc.Compile(HarnessSource(compute_capability));
  if (output.outcome != v1::OUTCOME_OK) {
    return FailedPrecondition("the worker's own kernels do not compile for compute capability {}.{}: {}",
                              compute_capability / 10, compute_capability % 10, output.message);
  }
  return HarnessBinary{output.binary, fmt::format("NVRTC {} ({})", nvrtc.version(), nvrtc.path())};
}

std::string HarnessBinary::Pack(int compute_capability) const {
  return PackExpected(SourceKey(compute_capability), {toolchain, cubin});
}

std::optional<HarnessBinary> HarnessBinary::Unpack(std::string_view packed, int compute_capability) {
  const auto parts = UnpackExpected(packed, SourceKey(compute_capability));
  if (!parts || parts->size() != 2) return std::nullopt;
  return HarnessBinary{std::string((*parts)[1]), std::string((*parts)[0])};
}

absl::StatusOr<std::unique_ptr<Harness>> Harness::Create(const GpuContext& gpu, const HarnessBinary& binary) {
  std::unique_ptr<Harness> harness(new Harness(gpu));
  const Driver& driver = gpu.driver();
  Failure failure = driver.Check(driver.cuModuleLoadData(&harness->module_, binary.cubin.data()),
                                 "The worker's own kernels could not be loaded");
  for (const char* kernel : kKernels) {
    if (failure) break;
    failure = driver.Check(driver.cuModuleGetFunction(&harness->functions_[kernel], harness->module_, kernel),
                           "A kernel of the worker's own is missing");
  }
  if (!failure) failure = harness->ReserveResults(1 << 16);
  if (failure) return FailedPrecondition("{}", failure.message);
  return harness;
}

Failure Harness::Launch(const char* kernel, uint64_t threads, void** parameters) {
  CUlaunchConfig config = {};
  const uint64_t blocks_max = kBlocksPerSm * static_cast<uint64_t>(std::max(gpu_.sm_count(), 1));
  const uint64_t blocks = (threads + kThreadsPerBlock - 1) / kThreadsPerBlock;
  config.gridDimX = static_cast<unsigned int>(std::clamp<uint64_t>(blocks, 1, blocks_max));
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = kThreadsPerBlock;
  config.hStream = gpu_.stream();
  const Driver& driver = gpu_.driver();
  return driver.Check(driver.cuLaunchKernelEx(&config, functions_.at(kernel), parameters, nullptr), kFailed);
}

Failure Harness::ReserveResults(uint64_t bytes) {
  if (results_.bytes() >= bytes) return {};
  results_ = GuardedBuffer();
  return GuardedBuffer::Allocate(gpu_, bytes, &results_);
}

Failure Harness::CheckHealth(bool* right, double* nanoseconds) {
  const Driver& driver = gpu_.driver();
  TUNEFARM_RETURN_IF_FAILED(ReserveResults((kHealthWords + 1) * sizeof(uint64_t)));
  CUevent begin = nullptr, end = nullptr;
  Failure failure = driver.Check(driver.cuEventCreate(&begin, CU_EVENT_DEFAULT), kFailed);
  if (!failure) failure = driver.Check(driver.cuEventCreate(&end, CU_EVENT_DEFAULT), kFailed);
  *right = true;
  *nanoseconds = 0;
  int since_better = 0;
  // On while it becomes faster, which it does where clocks were low.
  for (int run = 0; run < kHealthRunsMax && since_better < kHealthRunsMin && *right && !failure; ++run) {
    double taken = 0;
    failure = RunHealthKernels(begin, end, right, &taken);
    ++since_better;
    if (*nanoseconds == 0 || taken < 0.99 * *nanoseconds) {
      *nanoseconds = taken;
      since_better = 0;
    }
  }
  if (begin != nullptr) (void)driver.cuEventDestroy(begin);
  if (end != nullptr) (void)driver.cuEventDestroy(end);
  return failure;
}

Failure Harness::RunHealthKernels(CUevent begin, CUevent end, bool* right, double* nanoseconds) {
  const Driver& driver = gpu_.driver();
  CUdeviceptr sum = results_.data(), words = sum + sizeof(uint64_t);
  uint64_t count = kHealthWords, seed = kHealthSeed, factor = kHealthFactor, addend = kHealthAddend;
  int steps = kHealthSteps;
  void* write[] = {&words, &count, &seed, &factor, &addend, &steps};
  void* add[] = {&words, &count, &sum};
  TUNEFARM_RETURN_IF_FAILED(
      driver.Check(driver.cuMemsetD8Async(sum, 0, (count + 1) * sizeof(uint64_t), gpu_.stream()), kFailed));
  TUNEFARM_RETURN_IF_FAILED(
      driver.Check(driver.cuEventRecordWithFlags(begin, gpu_.stream(), CU_EVENT_RECORD_DEFAULT), kFailed));
  TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_health_write", count, write));
  TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_health_sum", count, add));
  TUNEFARM_RETURN_IF_FAILED(
      driver.Check(driver.cuEventRecordWithFlags(end, gpu_.stream(), CU_EVENT_RECORD_DEFAULT), kFailed));
  uint64_t found = 0;
  TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(sum, &found, sizeof(found)));
  float milliseconds = 0;
  TUNEFARM_RETURN_IF_FAILED(driver.Check(driver.cuEventElapsedTime(&milliseconds, begin, end), kFailed));
  *right = found == HealthSum();
  *nanoseconds = static_cast<double>(milliseconds) * 1e6;
  return {};
}

Failure Harness::Fill(const TunefarmFill& fill, CUdeviceptr output, uint64_t elements) {
  TunefarmFill copy = fill;
  void* parameters[] = {&copy, &output, &elements};
  return Launch("tunefarm_fill", (elements + 1) / 2, parameters);
}

Failure Harness::Poison(v1::DataType type, PoisonPattern pattern, CUdeviceptr output, uint64_t elements) {
  uint64_t bits = PoisonBits(type, pattern);
  int size = static_cast<int>(SizeOf(type));
  void* parameters[] = {&output, &bits, &size, &elements};
  return Launch("tunefarm_poison", elements, parameters);
}

Failure Harness::FillGuards(const GuardedBuffer& buffer) {
  for (CUdeviceptr zone : {buffer.guard_before(), buffer.guard_after()}) {
    uint64_t bytes = kGuardBytes;
    uint32_t word = kGuardWord;
    void* parameters[] = {&zone, &bytes, &word};
    TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_fill_guard", bytes, parameters));
  }
  return {};
}

Failure Harness::CheckGuards(const std::vector<CUdeviceptr>& zones, std::vector<std::optional<GuardDamage>>* damages) {
  struct Slot {
    uint64_t first = TUNEFARM_NO_INDEX;
    uint64_t last = 0;
  };
  std::vector<Slot> slots(zones.size());
  damages->assign(zones.size(), std::nullopt);
  if (zones.empty()) return {};
  TUNEFARM_RETURN_IF_FAILED(ReserveResults(slots.size() * sizeof(Slot)));
  const Driver& driver = gpu_.driver();
  TUNEFARM_RETURN_IF_FAILED(driver.Check(
      driver.cuMemcpyHtoDAsync(results_.data(), slots.data(), slots.size() * sizeof(Slot), gpu_.stream()), kFailed));
  for (size_t i = 0; i < zones.size(); ++i) {
    CUdeviceptr zone = zones[i], first = results_.data() + i * sizeof(Slot), last = first + sizeof(uint64_t);
    uint64_t bytes = kGuardBytes;
    uint32_t word = kGuardWord;
    void* parameters[] = {&zone, &bytes, &word, &first, &last};
    TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_check_guard", bytes, parameters));
  }
  TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(results_.data(), slots.data(), slots.size() * sizeof(Slot)));
  for (size_t i = 0; i < zones.size(); ++i) {
    if (slots[i].first != TUNEFARM_NO_INDEX) (*damages)[i] = GuardDamage{slots[i].first, slots[i].last};
  }
  return {};
}

Failure Harness::Checksums(const std::vector<ByteRange>& ranges, std::vector<uint64_t>* checksums) {
  checksums->assign(ranges.size(), 0);
  if (ranges.empty()) return {};
  const uint64_t bytes = ranges.size() * sizeof(uint64_t);
  TUNEFARM_RETURN_IF_FAILED(ReserveResults(bytes));
  const Driver& driver = gpu_.driver();
  TUNEFARM_RETURN_IF_FAILED(driver.Check(driver.cuMemsetD8Async(results_.data(), 0, bytes, gpu_.stream()), kFailed));
  for (size_t i = 0; i < ranges.size(); ++i) {
    ByteRange range = ranges[i];
    CUdeviceptr sum = results_.data() + i * sizeof(uint64_t);
    void* parameters[] = {&range.data, &range.bytes, &sum};
    TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_checksum", range.bytes / 8, parameters));
  }
  return gpu_.CopyToHost(results_.data(), checksums->data(), bytes);
}

Failure Harness::HasBits(v1::DataType type, uint64_t bits, CUdeviceptr data, uint64_t elements, bool* found) {
  const Driver& driver = gpu_.driver();
  CUdeviceptr flag = results_.data();
  int size = static_cast<int>(SizeOf(type));
  TUNEFARM_RETURN_IF_FAILED(driver.Check(driver.cuMemsetD8Async(flag, 0, 8, gpu_.stream()), kFailed));
  void* parameters[] = {&data, &bits, &size, &elements, &flag};
  TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_find_bits", elements, parameters));
  uint64_t value = 0;
  TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(flag, &value, sizeof(value)));
  *found = value != 0;
  return {};
}

Failure Harness::Compare(const CompareInput& input, const TolerancePlan& tolerance, BufferComparison* found) {
  const Driver& driver = gpu_.driver();
  TunefarmComparison pair = {};
  pair.actual = reinterpret_cast<const unsigned char*>(input.actual);
  pair.expected = reinterpret_cast<const unsigned char*>(input.expected);
  pair.elements = input.elements;
  pair.type = static_cast<int>(input.type);
  pair.atol = tolerance.atol;
  pair.rtol = tolerance.rtol;
  if (input.pattern) {
    pair.has_poison = 1;
    pair.actual_poison = PoisonBits(input.type, *input.pattern);
  }
  if (input.pattern && input.expected_pattern) {
    pair.expected_has_poison = 1;
    pair.expected_poison = PoisonBits(input.type, *input.expected_pattern);
  }
  const uint64_t chunks = (input.elements + TUNEFARM_CHUNK_ELEMENTS - 1) / TUNEFARM_CHUNK_ELEMENTS;
  TunefarmComparisonResult result = {0, 0, 0, 0, TUNEFARM_NO_INDEX};
  TUNEFARM_RETURN_IF_FAILED(ReserveResults(sizeof(result) + chunks * sizeof(uint32_t)));
  if (tolerance.catastrophic_bound > 0) {
    CUdeviceptr largest = results_.data();
    double magnitude = 0;
    TUNEFARM_RETURN_IF_FAILED(driver.Check(driver.cuMemsetD8Async(largest, 0, 8, gpu_.stream()), kFailed));
    void* parameters[] = {&pair, &largest};
    TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_largest", input.elements, parameters));
    TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(largest, &magnitude, sizeof(magnitude)));
    pair.has_catastrophic = 1;
    pair.catastrophic_error = tolerance.catastrophic_bound * magnitude;
  }
  CUdeviceptr device_result = results_.data(), device_chunks = device_result + sizeof(result);
  TUNEFARM_RETURN_IF_FAILED(
      driver.Check(driver.cuMemcpyHtoDAsync(device_result, &result, sizeof(result), gpu_.stream()), kFailed));
  void* parameters[] = {&pair, &device_result, &device_chunks};
  TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_compare", chunks * kThreadsPerBlock, parameters));
  TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(device_result, &result, sizeof(result)));
  found->buffer = input.buffer;
  found->elements = input.elements;
  found->mismatches = result.mismatches;
  found->hard_mismatches = result.hard_mismatches;
  found->max_absolute_error = std::bit_cast<double>(static_cast<uint64_t>(result.max_absolute_error_bits));
  found->max_relative_error = std::bit_cast<double>(static_cast<uint64_t>(result.max_relative_error_bits));
  if (found->mismatches > 0) {
    std::vector<uint32_t> chunk_mismatches(chunks);
    TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(device_chunks, chunk_mismatches.data(), chunks * sizeof(uint32_t)));
    TUNEFARM_RETURN_IF_FAILED(ReadFirstMismatches(input, tolerance, chunk_mismatches, found));
  }
  return tolerance.row_norm_bound > 0 ? CompareRows(pair, tolerance, found) : Failure{};
}

// The device knows which chunks differ; the host's comparison says which elements, and by how much.
Failure Harness::ReadFirstMismatches(const CompareInput& input, const TolerancePlan& tolerance,
                                     const std::vector<uint32_t>& chunk_mismatches, BufferComparison* found) {
  const size_t size = SizeOf(input.type);
  TolerancePlan elements_only = tolerance;
  elements_only.catastrophic_bound = elements_only.row_norm_bound = 0;  // those need the whole buffer
  for (size_t chunk = 0; chunk < chunk_mismatches.size() && found->first.size() < kFirstMismatchesMax; ++chunk) {
    if (chunk_mismatches[chunk] == 0) continue;
    const uint64_t begin = chunk * TUNEFARM_CHUNK_ELEMENTS;
    const uint64_t count = std::min<uint64_t>(TUNEFARM_CHUNK_ELEMENTS, input.elements - begin);
    std::vector<std::byte> actual(count * size), expected(count * size);
    TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(input.actual + begin * size, actual.data(), actual.size()));
    TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(input.expected + begin * size, expected.data(), expected.size()));
    bool ambiguous = false;
    if (input.pattern == PoisonPattern::kSecond && input.expected_pattern == PoisonPattern::kFirst) {
      expected = ExpectedUnderSecondPoison(input.type, expected, &ambiguous);
    }
    const BufferComparison part = tunefarm::Compare(input.buffer, input.type, actual, expected, input.pattern,
                                                    elements_only, !input.expected_pattern.has_value());
    for (ElementMismatch mismatch : part.first) {
      if (found->first.size() >= kFirstMismatchesMax) break;
      mismatch.index += begin;
      found->first.push_back(mismatch);
    }
  }
  return {};
}

Failure Harness::CompareRows(const TunefarmComparison& input, const TolerancePlan& tolerance, BufferComparison* found) {
  TunefarmComparison pair = input;
  uint64_t row_length =
      tolerance.row_length > 0 ? static_cast<uint64_t>(tolerance.row_length) : std::max<uint64_t>(pair.elements, 1);
  double bound = tolerance.row_norm_bound, error = 0, reference = 0;
  const auto exceeds = [&] { return error > 0 && !(std::sqrt(error) <= bound * std::sqrt(reference)); };
  if (row_length > kRowOfOneBlockMax) {
    for (uint64_t begin = 0; begin < pair.elements && !found->bad_row; begin += row_length) {
      TUNEFARM_RETURN_IF_FAILED(
          RowNorm(pair, begin, std::min<uint64_t>(begin + row_length, pair.elements), &error, &reference));
      if (exceeds()) found->bad_row = begin / row_length;
    }
  } else {
    const Driver& driver = gpu_.driver();
    TunefarmComparisonResult result = {0, 0, 0, 0, TUNEFARM_NO_INDEX};
    CUdeviceptr device_result = results_.data();
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuMemcpyHtoDAsync(device_result, &result, sizeof(result), gpu_.stream()), kFailed));
    void* parameters[] = {&pair, &row_length, &bound, &device_result};
    const uint64_t rows = (pair.elements + row_length - 1) / row_length;
    TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_rows", rows * kThreadsPerBlock, parameters));
    TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(device_result, &result, sizeof(result)));
    if (result.first_bad_row != TUNEFARM_NO_INDEX) {
      found->bad_row = result.first_bad_row;
      const uint64_t begin = result.first_bad_row * row_length;
      TUNEFARM_RETURN_IF_FAILED(
          RowNorm(pair, begin, std::min<uint64_t>(begin + row_length, pair.elements), &error, &reference));
    }
  }
  if (found->bad_row) found->bad_row_norm = reference > 0 ? std::sqrt(error / reference) : HUGE_VAL;
  return {};
}

Failure Harness::RowNorm(const TunefarmComparison& input, uint64_t begin, uint64_t end, double* error,
                         double* reference) {
  constexpr size_t kBlocks = 256;
  TunefarmComparison pair = input;
  CUdeviceptr device_sums = results_.data();
  std::vector<double> sums(2 * kBlocks);
  // Blocks that are not launched on a small device add nothing.
  const Driver& driver = gpu_.driver();
  TUNEFARM_RETURN_IF_FAILED(
      driver.Check(driver.cuMemsetD8Async(device_sums, 0, sums.size() * sizeof(double), gpu_.stream()), kFailed));
  void* parameters[] = {&pair, &begin, &end, &device_sums};
  TUNEFARM_RETURN_IF_FAILED(Launch("tunefarm_row_sums", kBlocks * kThreadsPerBlock, parameters));
  TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(device_sums, sums.data(), sums.size() * sizeof(double)));
  *error = *reference = 0;
  for (size_t i = 0; i < kBlocks; ++i) {
    *error += sums[2 * i];
    *reference += sums[2 * i + 1];
  }
  return {};
}

}  // namespace tunefarm::cuda
