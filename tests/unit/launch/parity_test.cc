// A launch does what tuning has measured: from the package of a config the library tells the driver what a worker
// evaluates of the definition, also for dims that the config was not made for. No device: the driver only notes.
#include <dlfcn.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/launch/cuda_driver.h"
#include "client/launch/device.h"
#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/package_format.h"
#include "server/base/file.h"
#include "server/base/random.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/launch_sequence.h"
#include "server/definition/value_proto.h"
#include "server/device/device_class.h"
#include "server/driver_step/launch_config.h"
#include "server/driver_step/tensor_map.h"
#include "server/package/package_writer.h"
#include "tests/unit/definition/sample_kernel.h"
#include "tests/unit/launch/fake_cuda.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm::launch {
namespace {

// ---- The driver: a call is a line of text ----

// What it says of every function.
constexpr int kRegisters = 40;
constexpr int kStaticSharedBytes = 16;
int ActiveBlocks(int64_t threads, int64_t shared_bytes) {
  return static_cast<int>(1 + (threads / 32 + shared_bytes / 16) % 3);
}

struct Noted {
  DeviceClass device;
  std::vector<StepPlan> steps;     // that are expected: the driver is not told how large parameters are
  std::vector<std::string> calls;  // of launches and memsets
  std::vector<std::string> maps;   // tensor maps; an encoded one holds its number
  std::set<std::string> entries;   // handles of kernels are the texts in here
};
Noted noted;

using Extents = std::array<uint32_t, 3>;

std::string Hex(const void* bytes, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
  return text;
}

std::string LaunchText(std::string_view entry, const Extents& grid, const Extents& block,
                       const std::optional<Extents>& cluster, int64_t shared_bytes, bool cooperative, bool programmatic,
                       const std::vector<std::string>& parameters) {
  const Extents shown = cluster.value_or(Extents{});
  return fmt::format("{}: grid {}, block {}, cluster {}, {} bytes, cooperative {}, programmatic {}: {}", entry,
                     fmt::join(grid, "x"), fmt::join(block, "x"), fmt::join(shown, "x"), shared_bytes, cooperative,
                     programmatic, fmt::join(parameters, "; "));
}

std::string MemsetText(uint64_t address, unsigned int byte, uint64_t bytes) {
  return fmt::format("memset {:x}: {} bytes of {}", address, bytes, byte);
}

std::string MapText(int type, uint64_t address, const std::vector<uint64_t>& dims,
                    const std::vector<uint64_t>& byte_strides, const std::vector<uint32_t>& box,
                    const std::vector<uint32_t>& element_strides, int interleave, int swizzle, int l2_promotion,
                    int oob_fill) {
  return fmt::format("map of {} at {:x}, dims {}, strides {}, box {}, steps {}, modes {} {} {} {}", type, address,
                     fmt::join(dims, "x"), fmt::join(byte_strides, ","), fmt::join(box, "x"),
                     fmt::join(element_strides, ","), interleave, swizzle, l2_promotion, oob_fill);
}

cuda::Result NoteTensorMap(cuda::TensorMap* map, int type, uint32_t rank, void* address, const uint64_t* dims,
                           const uint64_t* byte_strides, const uint32_t* box, const uint32_t* element_strides,
                           int interleave, int swizzle, int l2_promotion, int oob_fill) {
  map->opaque[0] = noted.maps.size();
  noted.maps.push_back(MapText(type, reinterpret_cast<uintptr_t>(address), {dims, dims + rank},
                               {byte_strides, byte_strides + rank - 1}, {box, box + rank},
                               {element_strides, element_strides + rank}, interleave, swizzle, l2_promotion, oob_fill));
  return cuda::kSuccess;
}

std::string ParameterText(const StepPlan& step, const std::string& name, const void* parameter) {
  if (const auto scalar = step.scalars.find(name); scalar != step.scalars.end()) {
    return Hex(parameter, tunefarm::SizeOf(scalar->second.type));
  }
  if (step.tensor_maps.count(name) == 0) return Hex(parameter, sizeof(void*));
  uint64_t number = 0;
  std::memcpy(&number, parameter, sizeof(number));
  return number < noted.maps.size() ? noted.maps[number] : "no tensor map";
}

cuda::Result NoteLaunch(const cuda::LaunchConfig* config, cuda::Function function, void** parameters, void**) {
  std::optional<Extents> cluster;
  bool cooperative = false, programmatic = false;
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    const cuda::LaunchAttribute& attribute = config->attrs[i];
    unsigned int words[3];
    std::memcpy(words, attribute.value, sizeof(words));
    if (attribute.id == driver_step::kClusterDimensionId) {
      cluster = {words[0], words[1], words[2]};
    } else if (attribute.id == driver_step::kCooperativeId) {
      cooperative = words[0] == 1;
    } else if (attribute.id == driver_step::kProgrammaticStreamSerializationId) {
      programmatic = words[0] == 1;
    } else {
      ADD_FAILURE() << "attribute " << attribute.id;
    }
  }
  std::vector<std::string> texts;
  if (noted.calls.size() < noted.steps.size()) {
    const StepPlan& step = noted.steps[noted.calls.size()];
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      texts.push_back(ParameterText(step, step.arguments[i], parameters[i]));
    }
  }
  noted.calls.push_back(LaunchText(reinterpret_cast<const char*>(function),
                                   {config->gridDimX, config->gridDimY, config->gridDimZ},
                                   {config->blockDimX, config->blockDimY, config->blockDimZ}, cluster,
                                   config->sharedMemBytes, cooperative, programmatic, texts));
  return cuda::kSuccess;
}

cuda::Result SayDeviceAttribute(int* value, int which, cuda::Device) {
  const DeviceClass& device = noted.device;
  const std::map<int, int64_t> values = {
      {cuda::kMaxThreadsPerBlock, device.threads_per_block},
      {cuda::kMaxBlockDimX, device.block_max[0]},
      {cuda::kMaxBlockDimY, device.block_max[1]},
      {cuda::kMaxBlockDimZ, device.block_max[2]},
      {cuda::kMaxGridDimX, device.grid_max[0]},
      {cuda::kMaxGridDimY, device.grid_max[1]},
      {cuda::kMaxGridDimZ, device.grid_max[2]},
      {cuda::kMaxSharedPerBlock, device.shared_bytes_per_block},
      {cuda::kWarpSizeAttribute, device.warp_size},
      {cuda::kMaxRegistersPerBlock, device.registers_per_block},
      {cuda::kMultiprocessorCount, device.sm_count},
      {cuda::kL2CacheSize, device.l2_bytes},
      {cuda::kMaxThreadsPerMultiprocessor, device.threads_per_sm},
      {cuda::kComputeCapabilityMajor, device.compute_capability / 10},
      {cuda::kComputeCapabilityMinor, device.compute_capability % 10},
      {cuda::kMaxSharedPerMultiprocessor, device.shared_bytes_per_sm},
      {cuda::kMaxRegistersPerMultiprocessor, device.registers_per_sm},
      {cuda::kMaxSharedPerBlockOptin, device.shared_bytes_per_block_optin},
      {cuda::kMaxBlocksPerMultiprocessor, device.blocks_per_sm},
      {cuda::kReservedSharedPerBlock, device.reserved_shared_bytes_per_block},
  };
  const auto found = values.find(which);
  *value = found == values.end() ? 0 : static_cast<int>(found->second);
  return cuda::kSuccess;
}

void TakePlace(cuda::Driver* driver) {
  driver->cuTensorMapEncodeTiled = &NoteTensorMap;
  driver->cuLaunchKernelEx = &NoteLaunch;
  driver->cuDeviceGetAttribute = &SayDeviceAttribute;
  driver->cuDeviceTotalMem = [](size_t* bytes, cuda::Device) -> cuda::Result {
    *bytes = static_cast<size_t>(noted.device.memory_gib) << 30;
    return cuda::kSuccess;
  };
  driver->cuLibraryGetKernel = [](cuda::Kernel* kernel, cuda::Library, const char* name) -> cuda::Result {
    const std::string& entry = *noted.entries.insert(name).first;
    *kernel = reinterpret_cast<cuda::Kernel>(const_cast<char*>(entry.c_str()));
    return cuda::kSuccess;
  };
  driver->cuKernelGetAttribute = [](int* value, int which, cuda::Kernel, cuda::Device) -> cuda::Result {
    *value = which == cuda::kNumRegs ? kRegisters : which == cuda::kSharedSizeBytes ? kStaticSharedBytes : 0;
    return cuda::kSuccess;
  };
  driver->cuOccupancyMaxActiveBlocksPerMultiprocessor = [](int* blocks, cuda::Function, int threads,
                                                           size_t shared_bytes) -> cuda::Result {
    *blocks = ActiveBlocks(threads, static_cast<int64_t>(shared_bytes));
    return cuda::kSuccess;
  };
  driver->cuMemsetD8Async = [](cuda::DevicePointer address, unsigned char byte, size_t bytes,
                               cuda::Stream) -> cuda::Result {
    noted.calls.push_back(MemsetText(address, byte, bytes));
    return cuda::kSuccess;
  };
}

// ---- Definitions and the dims of their launches ----

using OpenDims = std::map<std::string, int64_t>;

struct Definition {
  std::shared_ptr<const KernelPlan> plan;
  std::vector<OpenDims> launches;  // configs are drawn for the first
};

// By the names of kernels. The last ones are beyond limits.
const std::map<std::string, std::vector<OpenDims>>& RepositoryLaunches() {
  static const auto& launches = *new std::map<std::string, std::vector<OpenDims>>([] {
    const auto grouped = [](int64_t tokens, int64_t topk, int64_t e, int64_t n, int64_t k, int64_t ends) {
      return OpenDims{{"tokens", tokens}, {"topk", topk}, {"E", e}, {"N", n}, {"K", k}, {"group_ends", ends}};
    };
    const std::vector<OpenDims> products = {grouped(4096, 8, 128, 1536, 2048, 0),
                                            grouped(1, 1, 1, 8, 8, 1),
                                            grouped(333, 7, 60, 1000, 2056, 1),
                                            grouped(65536, 4, 16, 5120, 8200, 0),
                                            grouped(2048, 1, 1024, 64, 64, 1),
                                            grouped(1000, 6, 64, 1412, 2048, 0),
                                            grouped(16777216, 64, 1024, 1048576, 1048576, 1)};
    const auto product = [](int64_t m, int64_t n, int64_t k) { return OpenDims{{"M", m}, {"N", n}, {"K", k}}; };
    const std::vector<OpenDims> vectors = {{{"N", 1048576}}, {{"N", 1024}}, {{"N", 1000003}}, {{"N", 1073741824}}};
    return std::map<std::string, std::vector<OpenDims>>{
        {"vector_add", {{{"N", 67108864}}, {{"N", 1}}, {{"N", 1000003}}, {{"N", 68719476736}}}},
        {"matmul",
         {product(4096, 4096, 4096), product(1, 8, 8), product(1000, 1016, 520), product(129, 4100, 4096),
          product(16777216, 65536, 64), product(16777216, 16777216, 64)}},
        {"row_sum",
         {{{"rows", 8192}, {"columns", 2048}},
          {{"rows", 1}, {"columns", 4}},
          {{"rows", 1048576}, {"columns", 1048576}}}},
        {"grouped_gemm_forward", products},
        {"grouped_gemm_dx", products},
        {"grouped_gemm_dw", products},
        {"grouped_gemm_forward_fp8",
         {grouped(4096, 8, 128, 1536, 2048, 0), grouped(1, 1, 1, 8, 16, 1), grouped(333, 7, 60, 1000, 2064, 1),
          grouped(65536, 4, 16, 5120, 8208, 0), grouped(2048, 1, 1024, 64, 64, 1), grouped(333, 7, 60, 1000, 2056, 1),
          grouped(1000, 6, 64, 1412, 2048, 0), grouped(16777216, 64, 1024, 1048576, 1048576, 1)}},
        {"grouped_gemm_gate_up",
         {grouped(4096, 8, 128, 1536, 2048, 0), grouped(1, 1, 1, 256, 8, 1), grouped(333, 7, 60, 1024, 2056, 1),
          grouped(65536, 4, 16, 5120, 8200, 0), grouped(2048, 1, 1024, 256, 64, 1), grouped(333, 7, 60, 1000, 2056, 1),
          grouped(1000, 6, 64, 1416, 2048, 0), grouped(16777216, 64, 1024, 1048576, 1048576, 1)}},
        {"grouped_gemm_gate_up_fp8",
         {grouped(4096, 8, 128, 1536, 2048, 0), grouped(1, 1, 1, 256, 16, 1), grouped(333, 7, 60, 1024, 2064, 1),
          grouped(65536, 4, 16, 5120, 8208, 0), grouped(2048, 1, 1024, 256, 64, 1), grouped(333, 7, 60, 1000, 2064, 1),
          grouped(1000, 6, 64, 1536, 2056, 0), grouped(16777216, 64, 1024, 1048576, 1048576, 1)}},
        {"spmv_cuda",
         {{{"rows", 576}, {"nonzeros", 3357}}, {{"rows", 1}, {"nonzeros", 1}}, {{"rows", 99999}, {"nonzeros", 7}}}},
        {"faulty_cuda", vectors},
        {"hostile_cuda", vectors}};
  }());
  return launches;
}

std::vector<Definition> RepositoryDefinitions() {
  std::vector<Definition> definitions;
  const std::filesystem::path folder = std::filesystem::path(std::getenv("TUNEFARM_SOURCE_DIR")) / "kernels";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".pbtxt") continue;
    const auto text = ReadFile(path.string(), 1 << 20);
    EXPECT_TRUE(text.ok()) << Message(text.status());
    const auto kernel = LoadKernelText(text.value_or(""), path.filename().string(), [&](const std::string& source) {
      return ReadFile((path.parent_path() / source).string(), 4 << 20);
    });
    EXPECT_TRUE(kernel.ok()) << path << ": " << Message(kernel.status());
    if (!kernel.ok() || kernel->language() != v1::LANGUAGE_CUDA) continue;
    const auto known = RepositoryLaunches().find(kernel->display_name());
    EXPECT_NE(known, RepositoryLaunches().end()) << kernel->display_name() << " has no dims in this test";
    if (known != RepositoryLaunches().end()) definitions.push_back({*KernelPlan::Compile(*kernel), known->second});
  }
  return definitions;
}

// What the kernels of the repository do without.
constexpr std::string_view kManySteps = R"kernel(
display_name: "many_steps"
language: LANGUAGE_CUDA
sources { path: "many_steps.cu" content: "//" }
dims { name: "N" default_value { int_value: 960 } max: 1048576 }
dims { name: "D" default_value { int_value: 64 } max: 4096 }
dims { name: "F" bind: BIND_COMPILE default_value { int_value: 3 } values { int_value: 3 } values { int_value: 5 } }
dims { name: "dtype" type: VALUE_TYPE_STRING default_value { string_value: "f32" }
       values { string_value: "f32" } values { string_value: "bf16" } values { string_value: "fp8" } }
parameters { name: "BLOCK" values { ints: [32, 64, 256] } }
parameters { name: "SPLIT" values { ints: [1, 2, 4] } }
parameters { name: "SCALE" values { doubles: [0.1, 3.0] } }
parameters { name: "ORDER" values { strings: ["rows", "columns"] } bind: BIND_RUN }
derived { name: "tiles" expression: "ceil_div(N, BLOCK)" }
derived { name: "blocks" expression: "ceil_div(tiles, SPLIT) * SPLIT" }
constraints { expression: "N % F == 0 or SPLIT < 4" reason: "parts are whole" }
arguments { name: "x" buffer { data_type_dim: "dtype" length: "N * D" access: ACCESS_IN } }
arguments { name: "y" buffer { data_type: DATA_TYPE_F64 length: "N" access: ACCESS_OUT } }
arguments { name: "parts" buffer { data_type: DATA_TYPE_F32 length: "tiles * SPLIT + 1" access: ACCESS_SCRATCH } }
arguments { name: "marks" buffer { data_type: DATA_TYPE_U8 length: "device.sm_count + N % 7" access: ACCESS_SCRATCH } }
arguments { name: "ratio" scalar { data_type: DATA_TYPE_F32 value: "N / D" } }
arguments { name: "half" scalar { data_type: DATA_TYPE_F16 value: "SCALE * D" } }
arguments { name: "third" scalar { data_type: DATA_TYPE_BF16 value: "N / 3" } }
arguments { name: "narrow" scalar { data_type: DATA_TYPE_F8E4M3 value: "SCALE * D / 48" } }
arguments { name: "exact" scalar { data_type: DATA_TYPE_F64 value: "SCALE" } }
arguments { name: "wide" scalar { data_type: DATA_TYPE_I64 value: "-N * 1000003" } }
arguments { name: "small" scalar { data_type: DATA_TYPE_I8 value: "N % 251 - 125" } }
arguments { name: "is_split" scalar { data_type: DATA_TYPE_U32 value: "SPLIT > 1" } }
arguments { name: "loaded" scalar { data_type: DATA_TYPE_U16
            value: "kernel.max_active_blocks * kernel.registers + kernel.static_shared_bytes" } }
arguments { name: "line" tensor_map { buffer: "x" data_type: DATA_TYPE_U16 dims: ["N * D"] box: ["64"]
            element_strides: ["2"] l2_promotion: "'64B' if D > 64 else 'none'" oob_fill_nan: true
            base_offset_bytes: "16 * (N % 5)" } }
arguments { name: "tile" tensor_map { buffer: "x" dims: ["D", "N", "F", "1", "2"]
            byte_strides: ["16 * D", "16 * D * N", "16", "0"] box: ["16", "SPLIT", "1", "1", "1"]
            swizzle: "'128B' if ORDER == 'rows' else 'none'" interleave: "'16B' if N % 2 == 0 else 'none'" } }
launches { name: "clear" memset { buffer: "marks" byte: 255 } when: "SPLIT > 1 and N > 1" untimed: true }
launches { kernel { entry: "fill<BLOCK>" grid: ["blocks", "16 * D"] block: ["BLOCK", "2"] cluster: ["SPLIT", "2"]
                    dynamic_shared_bytes: "BLOCK * SPLIT + kernel.static_shared_bytes"
                    attributes { programmatic_stream_serialization: true }
                    arguments: ["line", "tile", "parts", "marks", "ratio", "half", "third", "narrow", "exact", "wide",
                                "small"] } }
launches { kernel { entry: "sum" grid: "min(kernel.max_active_blocks * device.sm_count, tiles)" block: "2 * BLOCK"
                    attributes { cooperative: true } arguments: ["y", "parts", "is_split", "loaded"] }
           when: "tiles > 3 and kernel.registers > 1" }
launches { kernel { entry: "sum" grid: "1" block: "64" arguments: ["y", "parts", "is_split", "loaded"] }
           when: "tiles <= 8" }
reference { steps { kernel { entry: "reference" grid: "1" block: "1" arguments: ["x", "y"] } } }
bytes: "N * D"
resources { min_compute_capability: 90 }
)kernel";

const std::map<std::string, std::string>& Symbols() {
  static const auto& symbols = *new std::map<std::string, std::string>{{"fill<BLOCK>", "_Z4fillILi64EEvv"}};
  return symbols;
}

// Every choice of the dims that a launch does not give.
std::vector<Config> ClosedDims(const KernelPlan& plan) {
  std::vector<Config> all(1);
  for (const v1::Dim& dim : plan.kernel().dims()) {
    if (IsOpenDim(dim) || dim.inputs_only()) continue;
    std::vector<Value> values;
    for (const v1::Value& value : dim.values()) values.push_back(*definition::FromProto(value));
    if (dim.type() == v1::VALUE_TYPE_BOOL) values = {Value(false), Value(true)};
    if (values.empty()) values.push_back(*definition::FromProto(dim.default_value()));
    std::vector<Config> longer;
    for (const Config& config : all) {
      for (const Value& value : values) {
        longer.push_back(config);
        longer.back().Set(dim.name(), value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Each code path by itself, so that configs of both are drawn.
std::vector<Config> Paths(const KernelPlan& plan) {
  for (const v1::Parameter& parameter : plan.kernel().parameters()) {
    if (parameter.name() != "path") continue;
    std::vector<Config> paths;
    for (const std::string& path : parameter.values().strings()) paths.push_back({{"path", Value(path)}});
    return paths;
  }
  return {Config()};
}

// What configs are drawn from, and the same for the other launches; nullopt: the definition refuses the problem.
struct Source {
  Config closed;
  std::vector<std::optional<ResolvedProblem>> problems;
  std::vector<std::optional<Space>> spaces;
};

// nullopt: there is no config.
std::optional<Source> MakeSource(const Definition& own, const Config& closed, const Config& pinned,
                                 const DeviceClass& device, PhiloxStream* random) {
  Source source;
  source.closed = closed;
  for (const OpenDims& open : own.launches) {
    v1::Problem proto;
    for (const auto& [name, value] : closed) (*proto.mutable_dims())[name] = definition::ToProto(value);
    for (const auto& [name, value] : open) (*proto.mutable_dims())[name].set_int_value(value);
    for (const auto& [name, value] : pinned) (*proto.mutable_pinned())[name] = definition::ToProto(value);
    std::optional<ResolvedProblem>& problem = source.problems.emplace_back();
    std::optional<Space>& space = source.spaces.emplace_back();
    auto resolved = own.plan->ResolveProblem(proto);
    if (resolved.ok()) {
      auto built = own.plan->BuildSpace(*resolved, device);
      EXPECT_TRUE(built.ok()) << Message(built.status());
      if (!built.ok()) return std::nullopt;
      problem = *std::move(resolved);
      space = *std::move(built);
    }
    if (source.spaces.size() > 1) continue;
    EXPECT_TRUE(space.has_value()) << Message(resolved.status());
    if (!space.has_value() || !space->SampleUniform(*random).ok()) return std::nullopt;
  }
  return source;
}

// ---- What a worker does ----

absl::StatusOr<std::vector<StepPlan>> WorkerSteps(const KernelPlan& plan, const ResolvedProblem& problem,
                                                  const Config& config, const DeviceClass& device) {
  std::map<std::string, LoadedEntry> loaded;
  for (const std::string& entry : plan.Entries(Sequence::kLaunches)) {
    loaded[entry] = {0, kRegisters, kStaticSharedBytes};
  }
  return plan.Steps(Sequence::kLaunches, problem, config, device, &loaded, [](const StepPlan& step) {
    return ActiveBlocks(int64_t{step.block[0]} * step.block[1] * step.block[2], step.dynamic_shared_bytes);
  });
}

std::string TextOf(const driver_step::TensorMapValues& map, uint64_t buffer) {
  return MapText(map.type, buffer + static_cast<uint64_t>(map.base_offset_bytes), {map.dims, map.dims + map.rank},
                 {map.byte_strides, map.byte_strides + map.rank - 1}, {map.box, map.box + map.rank},
                 {map.element_strides, map.element_strides + map.rank}, map.interleave, map.swizzle, map.l2_promotion,
                 map.oob_fill);
}

std::string TextOf(const StepPlan& step, const std::map<std::string, uint64_t>& addresses,
                   const std::map<std::string, BufferPlan>& buffers) {
  if (step.kind == StepPlan::Kind::kMemset) {
    const std::string& name = step.memset_buffer;
    return MemsetText(addresses.at(name), step.memset_byte, static_cast<uint64_t>(buffers.at(name).bytes()));
  }
  std::vector<std::string> parameters;
  for (const std::string& name : step.arguments) {
    if (const auto scalar = step.scalars.find(name); scalar != step.scalars.end()) {
      parameters.push_back(Hex(scalar->second.bytes.data(), tunefarm::SizeOf(scalar->second.type)));
    } else if (const auto map = step.tensor_maps.find(name); map != step.tensor_maps.end()) {
      parameters.push_back(TextOf(map->second.values, addresses.at(map->second.buffer)));
    } else {
      parameters.push_back(Hex(&addresses.at(name), sizeof(void*)));
    }
  }
  const auto symbol = Symbols().find(step.entry);
  return LaunchText(symbol == Symbols().end() ? step.entry : symbol->second, step.grid, step.block, step.cluster,
                    step.dynamic_shared_bytes, step.attributes.cooperative(),
                    step.attributes.programmatic_stream_serialization(), parameters);
}

// ---- Both ----

constexpr uint64_t kWorkspace = uint64_t{1} << 46;

class LaunchParityTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Opened by its name later on, this is what the loader finds.
    void* const library = dlopen(TUNEFARM_LAUNCH_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto get = reinterpret_cast<FakeCuda* (*)()>(dlsym(library, "TheFakeCuda"));
    ASSERT_NE(get, nullptr) << dlerror();
    TakePlace(&get()->own);
  }

  // With configs drawn for the first launch.
  void CheckOn(const Definition& own, const DeviceClass& device) {
    const int exact = own.plan->kernel().resources().exact_compute_capability();
    if (exact != 0 && exact != device.compute_capability) return;
    const size_t configs = 20 * Paths(*own.plan).size();
    SCOPED_TRACE(own.plan->display_name() + " on " + device.display_name);
    noted.device = device;
    PhiloxStream random(1);
    std::vector<Source> sources;
    for (const Config& closed : ClosedDims(*own.plan)) {
      for (const Config& pinned : Paths(*own.plan)) {
        auto source = MakeSource(own, closed, pinned, device, &random);
        if (source.has_value()) sources.push_back(*std::move(source));
      }
    }
    ASSERT_FALSE(sources.empty());
    std::set<std::string> paths;
    launched_ = refused_ = 0;
    for (size_t i = 0; i < configs; ++i) {
      const Source& source = sources[i % sources.size()];
      const auto drawn = source.spaces[0]->SampleUniform(random);
      ASSERT_TRUE(drawn.ok()) << Message(drawn.status());
      const Config config = source.spaces[0]->MakeConfig(*drawn);
      CheckConfig(own, source, config, device);
      if (HasFailure()) return;  // one is enough to read
      if (const Value* const path = config.Find("path"); path != nullptr) paths.insert(path->ToText());
    }
    EXPECT_GE(launched_, 3 * configs);
    if (!paths.empty()) {
      EXPECT_EQ(paths.size(), device.compute_capability == 90 ? Paths(*own.plan).size() : 1U);
      EXPECT_GE(refused_, 3 * configs);
    }
  }

 private:
  void CheckConfig(const Definition& own, const Source& source, const Config& config, const DeviceClass& device) {
    SCOPED_TRACE(config.ToText() + " for " + source.problems[0]->key);
    PackagedChoice choice;
    choice.is_default = true;  // so that it answers for all open dims
    choice.device_class = device;
    choice.dims = source.problems[0]->dims;
    choice.config = config;
    const auto sequence = MakeLaunchSequence(*own.plan, *source.problems[0], config, device, Symbols());
    ASSERT_TRUE(sequence.ok()) << Message(sequence.status());
    choice.sequence = *sequence;
    choice.binary = package::NoBinary();
    choice.toolchain = "NVRTC 13.0";
    const std::vector<PackagedKernel> kernels = {PackagedKernel{own.plan, {choice}}};
    const auto bytes = WritePackage(kernels, 1);
    ASSERT_TRUE(bytes.ok()) << Message(bytes.status());
    std::vector<tunefarm_dim> fixed;
    for (const auto& [name, value] : source.closed) {
      tunefarm_dim& dim = fixed.emplace_back();
      dim.name = name.c_str();
      dim.type = static_cast<tunefarm_value_type>(value.type());
      if (value.is_string()) dim.value.text = value.string_value().c_str();
      if (value.is_bool()) dim.value.number = value.bool_value() ? 1 : 0;
      if (value.is_int()) dim.value.number = value.int_value();
    }
    tunefarm_package* package = nullptr;
    ASSERT_EQ(tunefarm_package_open_bytes(bytes->data(), bytes->size(), &package, &error_), TUNEFARM_OK)
        << error_.message;
    tunefarm_kernel* kernel = nullptr;
    const tunefarm_status status = tunefarm_kernel_load(package, own.plan->display_name().c_str(), fixed.data(),
                                                        fixed.size(), nullptr, &kernel, &error_);
    tunefarm_package_close(package);
    ASSERT_EQ(status, TUNEFARM_OK) << error_.message;
    noted.maps.clear();
    for (size_t i = 0; i < own.launches.size(); ++i) {
      // The last one finds what the first one has left.
      for (const uint64_t first_address : {uint64_t{1} << 40, uint64_t{1} << 41, uint64_t{1} << 40}) {
        if (!HasFailure()) CheckLaunch(own, source, i, config, device, *sequence, kernel, first_address);
      }
    }
    tunefarm_kernel_close(kernel);
  }

  void CheckLaunch(const Definition& own, const Source& source, size_t number, const Config& config,
                   const DeviceClass& device, const v1::LaunchSequence& sequence, const tunefarm_kernel* kernel,
                   uint64_t first_address) {
    const KernelPlan& plan = *own.plan;
    const std::optional<ResolvedProblem>& problem = source.problems[number];
    SCOPED_TRACE(problem.has_value() ? problem->key : "a problem that the definition refuses");
    const OpenDims& open = own.launches[number];
    std::vector<int64_t> dims;
    for (size_t i = 0; i < tunefarm_kernel_dim_count(kernel); ++i) {
      dims.push_back(open.at(tunefarm_kernel_dim_name(kernel, i)));
    }
    std::vector<void*> arguments;
    std::map<std::string, uint64_t> addresses;
    std::vector<std::string> names;
    for (size_t i = 0; i < tunefarm_kernel_argument_count(kernel); ++i) {
      tunefarm_argument argument = TUNEFARM_ARGUMENT_INIT;
      ASSERT_EQ(tunefarm_kernel_argument(kernel, i, &argument, &error_), TUNEFARM_OK) << error_.message;
      const uint64_t address = first_address + (uint64_t{i} << 32);
      names.emplace_back(argument.name);
      addresses[argument.name] = address;
      arguments.push_back(reinterpret_cast<void*>(address));
    }
    tunefarm_launch launch = TUNEFARM_LAUNCH_INIT;
    launch.dims = dims.data();
    launch.dim_count = dims.size();
    launch.arguments = arguments.data();
    launch.argument_count = arguments.size();
    launch.workspace = reinterpret_cast<void*>(kWorkspace);
    launch.workspace_bytes = kWorkspace;
    absl::StatusOr<std::vector<StepPlan>> steps = absl::InvalidArgumentError("the space refuses the config");
    if (problem.has_value() && source.spaces[number]->Contains(config)) {
      steps = WorkerSteps(plan, *problem, config, device);
    }
    noted.calls.clear();
    noted.steps = steps.ok() ? *steps : std::vector<StepPlan>();
    const tunefarm_status status = tunefarm_kernel_launch(kernel, &launch, &error_);
    if (!steps.ok()) {
      EXPECT_TRUE(status == TUNEFARM_NOT_FOUND || status == TUNEFARM_INVALID_ARGUMENT)
          << status << ", but: " << Message(steps.status());
      EXPECT_THAT(noted.calls, testing::IsEmpty());
      ++refused_;
      return;
    }
    ASSERT_EQ(status, TUNEFARM_OK) << error_.message;
    ++launched_;
    const auto all = plan.Buffers(*problem, config, device);
    ASSERT_TRUE(all.ok()) << Message(all.status());
    std::map<std::string, BufferPlan> buffers;
    for (const BufferPlan& buffer : *all) buffers.emplace(buffer.name, buffer);
    for (size_t i = 0; i < names.size(); ++i) {
      uint64_t length = 0;
      EXPECT_EQ(tunefarm_kernel_argument_length(kernel, i, dims.data(), dims.size(), &length, &error_), TUNEFARM_OK);
      EXPECT_EQ(length, static_cast<uint64_t>(buffers.at(names[i]).length)) << names[i];
    }
    uint64_t workspace_bytes = 0;
    for (const v1::LaunchBuffer& buffer : sequence.buffers()) {
      if (buffer.access() != v1::ACCESS_SCRATCH) continue;
      addresses[buffer.name()] = kWorkspace + workspace_bytes;
      workspace_bytes += (static_cast<uint64_t>(buffers.at(buffer.name()).bytes()) + 255) / 256 * 256;
    }
    tunefarm_plan planned = TUNEFARM_PLAN_INIT;
    EXPECT_EQ(tunefarm_kernel_plan(kernel, dims.data(), dims.size(), &planned, &error_), TUNEFARM_OK);
    EXPECT_EQ(planned.workspace_bytes, workspace_bytes);
    std::vector<std::string> expected;
    for (const StepPlan& step : *steps) expected.push_back(TextOf(step, addresses, buffers));
    EXPECT_EQ(noted.calls, expected);
  }

  tunefarm_error error_ = TUNEFARM_ERROR_INIT;

 protected:
  size_t launched_ = 0, refused_ = 0;
};

TEST_F(LaunchParityTest, ADeviceHasTheNumbersOfItsClass) {
  const cuda::Driver* driver = nullptr;
  ASSERT_EQ(cuda::GetDriver(&driver, nullptr), TUNEFARM_OK);
  for (const KnownClass& known : KnownClasses()) {
    noted.device = known.device_class;
    const DeviceProperties properties = ReadCudaDevice(*driver, 0);
    const ValueMap constants = known.device_class.Constants();
    for (size_t i = 0; i < package::kDeviceSlots; ++i) {
      EXPECT_EQ(properties.values[i], constants.at(package::kDeviceSlotNames[i]).int_value())
          << package::kDeviceSlotNames[i] << " of " << known.short_name;
    }
  }
}

TEST_F(LaunchParityTest, KernelsOfTheRepositoryAreLaunchedAsTheyAreMeasured) {
  if (std::getenv("TUNEFARM_SOURCE_DIR") == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  const std::vector<Definition> definitions = RepositoryDefinitions();
  EXPECT_EQ(definitions.size(), RepositoryLaunches().size());
  for (const char* const name : {"A100", "H100", "H200"}) {
    for (const Definition& own : definitions) CheckOn(own, FindKnownClass(name).value());
  }
}

TEST_F(LaunchParityTest, EveryKindOfStepIsLaunchedAsItIsMeasured) {
  const auto plan = CompileText(kManySteps);
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  const Definition own = {*plan,
                          {{{"N", 960}, {"D", 64}},
                           {{"N", 1}, {"D", 1}},
                           {{"N", 37}, {"D", 100}},
                           {{"N", 1001}, {"D", 8}},
                           {{"N", 1048575}, {"D", 4095}},
                           {{"N", 960}, {"D", 4096}}}};  // too many blocks along y
  CheckOn(own, FindKnownClass("H200").value());
  EXPECT_GE(refused_, launched_ / own.launches.size());
}

}  // namespace
}  // namespace tunefarm::launch
