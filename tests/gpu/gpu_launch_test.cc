// The launch library on a GPU: a package is made here, with a binary of NVRTC's, and launched through launch.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "client/launch/include/tunefarm/launch.h"
#include "server/base/status.h"
#include "server/worker/cuda/gpu_context.h"
#include "server/worker/cuda/nvrtc.h"
#include "tests/gpu/kernel_bench.h"
#include "tests/unit/launch/counted_calls.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm::cuda {
namespace {

constexpr const char* kSource = R"cuda(
struct alignas(64) Map {
  unsigned long long words[16];
};

extern "C" __constant__ float table[4];

extern "C" __global__ void double_y(float* y, long long n) {
  for (long long i = threadIdx.x; i < n; i += blockDim.x) y[i] *= 2;
}

extern "C" __global__ void work(const float* x, const float* y, float* z, const unsigned long long* w, int n,
                                float factor, const __grid_constant__ Map map, unsigned long long* dump) {
  extern __shared__ float tile[];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    tile[threadIdx.x] = x[i];
    z[i] += factor * tile[threadIdx.x] * table[1] + y[i] + (w[i] == 0x100000002ull ? 0.0f : 1000.0f);
  }
  if (blockIdx.x == 0 && threadIdx.x < 16) dump[threadIdx.x] = map.words[threadIdx.x];
  if (blockIdx.x == 0 && threadIdx.x == 16) dump[16] = gridDim.x;
}
)cuda";

// Device memory of the test's own.
class Array {
 public:
  Array(const GpuContext& gpu, size_t bytes) : gpu_(gpu) {
    EXPECT_EQ(gpu.driver().cuMemAlloc(&address_, bytes), CUDA_SUCCESS);
  }
  ~Array() { (void)gpu_.driver().cuMemFree(address_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  void* get() const { return reinterpret_cast<void*>(address_); }
  CUdeviceptr address() const { return address_; }
  void Set(const std::vector<float>& values) {
    EXPECT_FALSE(gpu_.CopyToDevice(values.data(), address_, values.size() * sizeof(float)));
  }
  template <typename T>
  std::vector<T> Get(size_t count) const {
    std::vector<T> values(count);
    EXPECT_FALSE(gpu_.CopyToHost(address_, values.data(), count * sizeof(T)));
    return values;
  }

 private:
  const GpuContext& gpu_;
  CUdeviceptr address_ = 0;
};

constexpr size_t kCount = 1024;

constexpr const char* kWholeDevice = "device.sm_count * kernel.max_active_blocks";

// `plain`: no buffer is initialised. `grid` is a formula and the config's value of GRID.
std::string MakePackage(const DeviceClass& device, const std::string& cubin, bool plain = false,
                        const std::string& grid = kWholeDevice) {
  package::PackageBuilder builder({"n"});
  package::ClassRecord device_class = {builder.String(device.Id()), builder.String(device.display_name), {}};
  const ValueMap constants = device.Constants();
  for (uint32_t i = 0; i < package::kDeviceSlots; ++i) {
    device_class.properties[i] = constants.at(package::kDeviceSlotNames[i]).int_value();
  }
  builder.classes.push_back(device_class);
  package::BinaryRecord binary = {};
  binary.kind = package::kCubin;
  binary.compute_capability = static_cast<uint32_t>(device.compute_capability);
  binary.toolchain = builder.String("NVRTC");
  builder.Binary(binary, cubin);
  package::DimRecord n = {};
  n.name = builder.String("n");
  n.kind = package::kInt;
  n.bind = package::kRun;
  n.rule = package::kLog;
  n.min = 1;
  n.max = 1 << 20;
  n.default_value = package::kNone;
  builder.dims = {n};
  const uint32_t length = builder.Formula("n"), one = builder.Formula("1");
  const auto buffer = [&](const char* name, uint32_t type, uint32_t access, uint32_t init, uint32_t formula) {
    package::BufferRecord added = {};
    added.name = builder.String(name);
    added.data_type = type;
    added.access = access;
    added.init = init;
    added.length = formula;
    added.symbol = package::kNone;
    builder.buffers.push_back(added);
  };
  buffer("x", 11, package::kIn, package::kUntouched, length);
  buffer("y", 11, package::kInOut, package::kUntouched, length);
  buffer("z", 11, package::kOut, package::kZero, length);
  buffer("dump", 8, package::kOut, package::kUntouched, builder.Formula("17"));
  buffer("table", 11, package::kIn, package::kUntouched, builder.Formula("4"));
  builder.buffers.back().symbol = builder.String("table");
  buffer("w", 8, package::kScratch, package::kFill, length);
  builder.buffers.back().fill = 0x1'0000'0002;
  for (package::BufferRecord& added : builder.buffers) added.init = plain ? uint32_t{package::kUntouched} : added.init;

  package::TensorMapRecord map = {};
  map.buffer = 0;
  map.data_type = 11;
  map.rank = 2;
  std::fill(std::begin(map.dims), std::end(map.dims), package::kNone);
  std::fill(std::begin(map.byte_strides), std::end(map.byte_strides), package::kNone);
  std::fill(std::begin(map.box), std::end(map.box), package::kNone);
  std::fill(std::begin(map.element_strides), std::end(map.element_strides), package::kNone);
  map.dims[0] = builder.Formula("32");
  map.dims[1] = builder.Formula("n // 32");
  map.byte_strides[0] = builder.Formula("128");
  map.box[0] = builder.Formula("32");
  map.box[1] = builder.Formula("min(8, n)");
  map.swizzle = builder.Formula("'128B'");
  map.interleave = builder.Formula("'none'");
  map.l2_promotion = builder.Formula("'256B'");
  map.base_offset_bytes = builder.Formula("0");
  builder.tensor_maps = {map};

  builder.arguments = {{package::kBufferArgument, 0, 0},      {package::kBufferArgument, 1, 0},
                       {package::kBufferArgument, 2, 0},      {package::kBufferArgument, 5, 0},
                       {package::kScalarArgument, length, 5}, {package::kScalarArgument, builder.Formula("2.5"), 11},
                       {package::kTensorMapArgument, 0, 0},   {package::kBufferArgument, 3, 0},
                       {package::kBufferArgument, 1, 0},      {package::kScalarArgument, length, 7}};
  package::StepRecord work = package::HostStep(builder.String("work"), 0, 8);
  work.grid[0] = builder.Formula(grid);
  work.block[0] = builder.Formula("256");
  work.dynamic_shared_bytes = builder.Formula("60 * 1024");
  package::StepRecord prepare = package::HostStep(builder.String("double_y"), 8, 2);
  prepare.grid[0] = one;
  prepare.block[0] = builder.Formula("256");
  builder.steps = {work, prepare};
  package::ChoiceRecord choice = {};
  choice.kind = package::kTuned;
  choice.first_dim_value = builder.AddValue(int64_t{kCount});
  choice.buffers = 6;
  choice.steps = 1;
  choice.first_prepare = 1;
  choice.prepares = 1;
  choice.layout = 1;
  choice.parameters = 1;
  builder.pairs = {{builder.String("GRID"), builder.AddValue(grid)}};
  builder.choices = {choice};
  package::KernelRecord kernel = {};
  kernel.name = builder.String("work");
  kernel.kernel_id = builder.String("k");
  kernel.program_digest = builder.String("p");
  kernel.language = package::kCuda;
  kernel.dims = 1;
  kernel.choices = 1;
  kernel.lookup_distance_max = 4;
  builder.kernels = {kernel};
  return builder.Finish();
}

class GpuLaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    device_ = TheGpu(nullptr)->device_class;
    auto opened = GpuContext::Open("");
    ASSERT_TRUE(opened.ok()) << MessageOf(opened.status());
    gpu_ = *std::move(opened);
    ASSERT_NO_FATAL_FAILURE(Compile(kSource, &cubin_));
    Load(MakePackage(device_, cubin_));
  }
  void Compile(const std::string& source, std::string* cubin) const {
    const auto nvrtc = Nvrtc::Open(ProcessSearchPlaces(""));
    ASSERT_TRUE(nvrtc.ok()) << MessageOf(nvrtc.status());
    NvrtcInput input;
    input.name = "work.cu";
    input.source = source;
    input.options = {"--gpu-architecture=sm_" + std::to_string(device_.compute_capability), "--std=c++17"};
    const NvrtcOutput output = (*nvrtc)->Compile(input);
    ASSERT_EQ(output.outcome, v1::OUTCOME_OK) << output.message << output.log;
    *cubin = output.binary;
  }
  void Load(const std::string& bytes) {
    tunefarm_kernel_close(kernel_);
    tunefarm_package_close(package_);
    ASSERT_EQ(tunefarm_package_open_bytes(bytes.data(), bytes.size(), &package_, &error_), TUNEFARM_OK)
        << error_.message;
    ASSERT_EQ(tunefarm_kernel_load(package_, "work", nullptr, 0, nullptr, &kernel_, &error_), TUNEFARM_OK)
        << error_.message;
  }
  void TearDown() override {
    tunefarm_kernel_close(kernel_);
    tunefarm_package_close(package_);
  }

  DeviceClass device_;
  std::string cubin_;
  std::unique_ptr<GpuContext> gpu_;
  tunefarm_package* package_ = nullptr;
  tunefarm_kernel* kernel_ = nullptr;
  tunefarm_error error_ = TUNEFARM_ERROR_INIT;
};

TEST_F(GpuLaunchTest, LaunchesByItselfAndInAGraph) {
  const Driver& driver = gpu_->driver();
  EXPECT_EQ(tunefarm_kernel_device(kernel_), 0);
  Array x(*gpu_, kCount * 4), y(*gpu_, kCount * 4), z(*gpu_, kCount * 4), dump(*gpu_, 17 * 8), table(*gpu_, 16);
  int64_t n = kCount;
  tunefarm_plan plan = TUNEFARM_PLAN_INIT;
  ASSERT_EQ(tunefarm_kernel_plan(kernel_, &n, 1, &plan, &error_), TUNEFARM_OK) << error_.message;
  EXPECT_EQ(plan.match, TUNEFARM_MATCH_EXACT);
  EXPECT_EQ(plan.needs_prepare, 1);
  EXPECT_EQ(plan.workspace_bytes, kCount * 8);
  const Array workspace(*gpu_, plan.workspace_bytes);
  x.Set(std::vector<float>(kCount, 2));
  y.Set(std::vector<float>(kCount, 1));
  z.Set(std::vector<float>(kCount, 100));
  table.Set({0, 3, 0, 0});
  void* const arguments[] = {x.get(), y.get(), z.get(), dump.get(), table.get()};
  const uint64_t bytes[] = {kCount * 4, kCount * 4, kCount * 4, 17 * 8, 16};
  tunefarm_launch launch = TUNEFARM_LAUNCH_INIT;
  launch.stream = gpu_->stream();
  launch.dims = &n;
  launch.dim_count = 1;
  launch.arguments = arguments;
  launch.argument_count = 5;
  launch.argument_bytes = bytes;
  launch.workspace = workspace.get();
  launch.workspace_bytes = plan.workspace_bytes;
  launch.generation = plan.generation;
  ASSERT_EQ(tunefarm_kernel_prepare(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  ASSERT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  ASSERT_FALSE(gpu_->Synchronize("the launch"));
  EXPECT_EQ(z.Get<float>(kCount), std::vector<float>(kCount, 17));  // 2.5 * 2 * 3 + 2

  // The tensor map is the driver's, and the grid is as large as the device holds.
  CUtensorMap expected;
  const cuuint64_t extents[] = {32, kCount / 32}, strides[] = {128};
  const cuuint32_t box[] = {32, 8}, steps[] = {1, 1};
  ASSERT_EQ(driver.cuTensorMapEncodeTiled(&expected, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x.get(), extents, strides, box,
                                          steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            CUDA_SUCCESS);
  const std::vector<uint64_t> dumped = dump.Get<uint64_t>(17);
  EXPECT_EQ(std::memcmp(dumped.data(), &expected, sizeof(expected)), 0);
  EXPECT_GE(dumped[16], static_cast<uint64_t>(device_.sm_count));
  EXPECT_EQ(dumped[16] % static_cast<uint64_t>(device_.sm_count), 0U);

  // The same in a graph, which outlives the kernel.
  z.Set(std::vector<float>(kCount, 100));
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(driver.cuStreamBeginCapture(gpu_->stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  ASSERT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  ASSERT_EQ(driver.cuStreamEndCapture(gpu_->stream(), &graph), CUDA_SUCCESS);
  ASSERT_EQ(driver.cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  tunefarm_kernel_close(kernel_);
  tunefarm_package_close(package_);
  kernel_ = nullptr;
  package_ = nullptr;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(driver.cuGraphLaunch(executable, gpu_->stream()), CUDA_SUCCESS);
  ASSERT_FALSE(gpu_->Synchronize("the graph"));
  EXPECT_EQ(z.Get<float>(kCount), std::vector<float>(kCount, 17));
  (void)driver.cuGraphExecDestroy(executable);
  (void)driver.cuGraphDestroy(graph);
}

// A better config arrives while a graph is captured: its binary is loaded, and the capture neither ends nor takes it.
TEST_F(GpuLaunchTest, AnUpdateWithinACaptureWaitsForItsEnd) {
  const Driver& driver = gpu_->driver();
  Array x(*gpu_, kCount * 4), y(*gpu_, kCount * 4), z(*gpu_, kCount * 4), dump(*gpu_, 17 * 8), table(*gpu_, 16);
  const Array workspace(*gpu_, kCount * 8);
  x.Set(std::vector<float>(kCount, 2));
  y.Set(std::vector<float>(kCount, 1));
  table.Set({0, 3, 0, 0});
  std::string other_cubin;
  ASSERT_NO_FATAL_FAILURE(
      Compile(std::string(kSource) + "extern \"C\" __global__ void more(float* y) { *y += 1; }\n", &other_cubin));
  ASSERT_NE(other_cubin, cubin_);
  const std::string bytes = MakePackage(device_, other_cubin, false, "7");
  tunefarm_package* newer = nullptr;
  ASSERT_EQ(tunefarm_package_open_bytes(bytes.data(), bytes.size(), &newer, &error_), TUNEFARM_OK) << error_.message;

  int64_t n = kCount;
  tunefarm_plan plan = TUNEFARM_PLAN_INIT;
  ASSERT_EQ(tunefarm_kernel_plan(kernel_, &n, 1, &plan, &error_), TUNEFARM_OK) << error_.message;
  void* const arguments[] = {x.get(), y.get(), z.get(), dump.get(), table.get()};
  tunefarm_launch launch = TUNEFARM_LAUNCH_INIT;
  launch.stream = gpu_->stream();
  launch.dims = &n;
  launch.dim_count = 1;
  launch.arguments = arguments;
  launch.argument_count = 5;
  launch.workspace = workspace.get();
  launch.workspace_bytes = plan.workspace_bytes;
  launch.generation = plan.generation;
  ASSERT_EQ(tunefarm_kernel_prepare(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  ASSERT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  ASSERT_FALSE(gpu_->Synchronize("the launch"));
  const uint64_t grid = dump.Get<uint64_t>(17)[16];

  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  // The strictest mode: no thread may do what is unsafe.
  ASSERT_EQ(driver.cuStreamBeginCapture(gpu_->stream(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(tunefarm_kernel_update(kernel_, newer, &error_), TUNEFARM_OK) << error_.message;
  EXPECT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  ASSERT_EQ(driver.cuStreamEndCapture(gpu_->stream(), &graph), CUDA_SUCCESS);
  ASSERT_EQ(driver.cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver.cuGraphLaunch(executable, gpu_->stream()), CUDA_SUCCESS);
  ASSERT_FALSE(gpu_->Synchronize("the graph"));
  EXPECT_EQ(z.Get<float>(kCount), std::vector<float>(kCount, 17));  // 2.5 * 2 * 3 + 2
  EXPECT_EQ(dump.Get<uint64_t>(17)[16], grid);

  // The new binary has no table yet.
  EXPECT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_STALE);
  ASSERT_EQ(tunefarm_kernel_plan(kernel_, &n, 1, &plan, &error_), TUNEFARM_OK) << error_.message;
  EXPECT_STREQ(plan.config, "GRID=7");
  launch.generation = plan.generation;
  ASSERT_EQ(tunefarm_kernel_prepare(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;  // doubles y again
  ASSERT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  ASSERT_FALSE(gpu_->Synchronize("the launch"));
  EXPECT_EQ(z.Get<float>(kCount), std::vector<float>(kCount, 19));
  EXPECT_EQ(dump.Get<uint64_t>(17)[16], 7U);
  (void)driver.cuGraphExecDestroy(executable);
  (void)driver.cuGraphDestroy(graph);
  tunefarm_package_close(newer);
}

// The median in nanoseconds of 10,000 calls, of which never more than 100 are under way.
template <typename Call>
double MedianNs(const GpuContext& gpu, const Call& call) {
  std::vector<double> times;
  for (int i = 0; i < 10'000; ++i) {
    if (i % 100 == 0) {
      EXPECT_FALSE(gpu.SynchronizeAll("calls"));
    }
    const auto start = std::chrono::steady_clock::now();
    call(i);
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 5'000, times.end());
  return times[5'000];
}

// A launch whose arrays lie at any of 64 places, so that addresses can be fresh.
class PlacedLaunch {
 public:
  static constexpr size_t kPlaces = 64;

  explicit PlacedLaunch(const GpuContext& gpu) : memory_(gpu, 6 * kPlaces * kCount * 8) {
    for (size_t i = 0; i < std::size(arguments_); ++i) arguments_[i] = Place(i, 0);
    launch.stream = gpu.stream();
    launch.dims = &n;
    launch.dim_count = 1;
    launch.arguments = arguments_;
    launch.argument_count = std::size(arguments_);
    launch.workspace = Place(5, 0);
    launch.workspace_bytes = kCount * 8;
  }
  PlacedLaunch(const PlacedLaunch&) = delete;
  PlacedLaunch& operator=(const PlacedLaunch&) = delete;

  void* Place(size_t array, size_t number) const {
    return reinterpret_cast<void*>(memory_.address() + (array * kPlaces + number) * kCount * 8);
  }
  // Other addresses for each of many numbers in turn.
  void PointAfresh(int number) {
    for (size_t i = 0; i < std::size(arguments_); ++i) {
      arguments_[i] = Place(i, static_cast<size_t>(number * 37) % kPlaces);
    }
    arguments_[0] = reinterpret_cast<std::byte*>(Place(0, 0)) + number % 500 * 128;
  }

  tunefarm_launch launch = TUNEFARM_LAUNCH_INIT;
  int64_t n = kCount;

 private:
  const Array memory_;
  void* arguments_[5];
};

// What the driver does by itself in a launch does not count.
TEST_F(GpuLaunchTest, LaunchesAllocateNothingAndLockNothing) {
  if (!launch::CallsAreCounted()) GTEST_SKIP() << "a sanitizer has a malloc of its own";
  ASSERT_TRUE(launch::LeaveOutCallsOf("libcuda.so"));
  for (const bool plain : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(Load(MakePackage(device_, cubin_, plain)));
    PlacedLaunch placed(*gpu_);
    ASSERT_EQ(tunefarm_kernel_launch(kernel_, &placed.launch, &error_), TUNEFARM_OK) << error_.message;
    int failed = 0;
    launch::CountedCalls counted;
    for (int i = 0; i < 1'000; ++i) {
      if (i % 100 == 0) {
        ASSERT_FALSE(gpu_->SynchronizeAll("calls"));
      }
      if (i >= 300) placed.PointAfresh(i);
      if (i >= 600) placed.n = 512 + i % 500;
      const launch::CountedCalls before = launch::CallsOfThisThread();
      failed += tunefarm_kernel_launch(kernel_, &placed.launch, nullptr) != TUNEFARM_OK ? 1 : 0;
      const launch::CountedCalls after = launch::CallsOfThisThread();
      counted.allocations += after.allocations - before.allocations;
      counted.locks += after.locks - before.locks;
    }
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(counted.allocations, 0);
    EXPECT_EQ(counted.locks, 0);
    ASSERT_FALSE(gpu_->SynchronizeAll("calls"));
  }
}

TEST_F(GpuLaunchTest, SaysWhatALaunchCosts) {
  const Driver& driver = gpu_->driver();
  ASSERT_NO_FATAL_FAILURE(Load(MakePackage(device_, cubin_, true)));
  PlacedLaunch placed(*gpu_);
  ASSERT_EQ(tunefarm_kernel_launch(kernel_, &placed.launch, &error_), TUNEFARM_OK) << error_.message;

  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(driver.cuModuleLoadData(&module, cubin_.data()), CUDA_SUCCESS);
  ASSERT_EQ(driver.cuModuleGetFunction(&function, module, "work"), CUDA_SUCCESS);
  ASSERT_EQ(driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60 * 1024),
            CUDA_SUCCESS);
  CUdeviceptr x = reinterpret_cast<CUdeviceptr>(placed.Place(0, 0)),
              w = reinterpret_cast<CUdeviceptr>(placed.Place(5, 0));
  int count = kCount;
  float factor = 2.5F;
  alignas(128) CUtensorMap map = {};
  void* parameters[] = {&x, &x, &x, &w, &count, &factor, &map, &w};
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(device_.sm_count);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 256;
  config.sharedMemBytes = 60 * 1024;
  config.hStream = gpu_->stream();
  const double itself =
      MedianNs(*gpu_, [&](int) { (void)driver.cuLaunchKernelEx(&config, function, parameters, nullptr); });
  int failed = 0;
  const auto run = [&] { failed += tunefarm_kernel_launch(kernel_, &placed.launch, nullptr) != TUNEFARM_OK ? 1 : 0; };
  const double known = MedianNs(*gpu_, [&](int) { run(); });
  const double fresh = MedianNs(*gpu_, [&](int i) {
    placed.PointAfresh(i);
    run();
  });
  const double other_dims = MedianNs(*gpu_, [&](int i) {
    placed.n = 512 + i % 500;
    run();
  });
  EXPECT_EQ(failed, 0);
  std::printf("cuLaunchKernelEx %.0f ns; a launch %.0f ns, with fresh addresses %.0f ns, with other dims %.0f ns\n",
              itself, known, fresh, other_dims);
}

}  // namespace
}  // namespace tunefarm::cuda
