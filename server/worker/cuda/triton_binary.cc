#include "server/worker/cuda/triton_binary.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/frame_codec.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::TritonBinary;
using tunefarm::worker::v1::TritonDescriptor;
using tunefarm::worker::v1::TritonKernel;

constexpr int kKernelsMax = 96;  // more than a definition has steps
constexpr size_t kNameBytesMax = 4096;
constexpr size_t kCubinBytesMin = 64;
constexpr int kWarpsMax = 32;
constexpr int kCtasMax = 16;
constexpr int kPortableCtasMax = 8;
constexpr int kSharedBytesMax = 1 << 30;     // the device's own limit is another outcome
constexpr int kSharedBytesUsual = 48 << 10;  // what a block may have without asking
constexpr int kScratchBytesMax = 1 << 30;
constexpr int kAlignmentMax = 4096;
constexpr int kArgumentsMax = 64;
constexpr int kElementTypeMax = 15;  // of CUtensorMapDataType
constexpr int kGlobalScratch = -1, kProfileScratch = -2;

// Names that no argument of a definition can have.
constexpr std::string_view kGlobalScratchName = "global scratch", kProfileScratchName = "profile scratch";

bool IsWithin(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

bool IsAlignment(int value) { return IsWithin(value, 0, kAlignmentMax) && (value & (value - 1)) == 0; }

std::string WhyNoDescriptors(const TritonKernel& kernel) {
  std::set<int> arguments;
  for (const TritonDescriptor& descriptor : kernel.descriptors()) {
    if (!IsWithin(descriptor.argument(), 0, kArgumentsMax - 1) || !arguments.insert(descriptor.argument()).second) {
      return "it takes a tensor descriptor as argument " + std::to_string(descriptor.argument());
    }
    const int rank = descriptor.rank();
    if (!IsWithin(rank, 1, driver_step::kTensorRankMax)) {
      return "it takes a tensor descriptor with " + std::to_string(rank) + " dimensions";
    }
    if (descriptor.box_size() != 0 && descriptor.box_size() != rank) {
      return "it takes a tensor map with " + std::to_string(descriptor.box_size()) + " extents of its box";
    }
    for (const int extent : descriptor.box()) {
      if (!IsWithin(extent, 1, driver_step::kTensorBoxMax)) {
        return "it takes a tensor map with a box of " + std::to_string(extent);
      }
    }
    if (!IsWithin(descriptor.swizzle(), 0, std::ssize(driver_step::kSwizzles) - 1) ||
        !IsWithin(descriptor.element_type(), 0, kElementTypeMax)) {
      return "it takes a tensor map of type " + std::to_string(descriptor.element_type()) + " with the swizzle " +
             std::to_string(descriptor.swizzle());
    }
  }
  return "";
}

std::string WhyNoKernel(const TritonKernel& kernel) {
  if (!IsWithin(static_cast<int64_t>(kernel.symbol().size()), 1, kNameBytesMax) ||
      kernel.symbol().find('\0') != std::string::npos) {
    return "its function has no name";
  }
  if (kernel.cubin().size() < kCubinBytesMin || kernel.cubin().compare(0, 4,
                                                                       "\x7f"
                                                                       "ELF") != 0) {
    return "it is no CUDA binary";
  }
  if (!IsWithin(kernel.num_warps(), 1, kWarpsMax)) return "it has " + std::to_string(kernel.num_warps()) + " warps";
  if (!IsWithin(kernel.num_ctas(), 1, kCtasMax)) {
    return "its programs have " + std::to_string(kernel.num_ctas()) + " blocks";
  }
  if (!IsWithin(kernel.shared_bytes(), 0, kSharedBytesMax)) {
    return "it wants " + std::to_string(kernel.shared_bytes()) + " bytes of shared memory";
  }
  for (const int bytes : {kernel.global_scratch_bytes(), kernel.profile_scratch_bytes()}) {
    if (!IsWithin(bytes, 0, kScratchBytesMax)) return "it wants " + std::to_string(bytes) + " bytes of scratch memory";
  }
  for (const int alignment : {kernel.global_scratch_alignment(), kernel.profile_scratch_alignment()}) {
    if (!IsAlignment(alignment)) return "it wants memory aligned to " + std::to_string(alignment) + " bytes";
  }
  if (kernel.parameters_size() > kArgumentsMax + 2) return "it has too many parameters";
  for (const int parameter : kernel.parameters()) {
    if (!IsWithin(parameter, kProfileScratch, kArgumentsMax - 1)) {
      return "it takes an argument " + std::to_string(parameter);
    }
  }
  return WhyNoDescriptors(kernel);
}

TritonScratch ScratchOf(const TritonKernel& kernel, const StepPlan& step, int bytes, int alignment) {
  // Grids of hostile sizes must not wrap: what is too large cannot be allocated either.
  const double blocks = static_cast<double>(step.grid[0]) * static_cast<double>(step.grid[1]) *
                        static_cast<double>(step.grid[2]) * kernel.num_ctas();
  const double wanted = std::min(blocks * bytes, static_cast<double>(int64_t{1} << 50));
  return {static_cast<uint64_t>(wanted), static_cast<uint64_t>(std::max(alignment, 1))};
}

// Little-endian, so that a parameter of fewer bytes has the same value.
ScalarPlan NumberPlan(uint64_t number) {
  ScalarPlan plan;
  plan.type = v1::DATA_TYPE_U64;
  std::memcpy(plan.bytes.data(), &number, sizeof(number));
  return plan;
}

const TritonDescriptor* DescriptorOf(const TritonKernel& kernel, int argument) {
  for (const TritonDescriptor& descriptor : kernel.descriptors()) {
    if (descriptor.argument() == argument) return &descriptor;
  }
  return nullptr;
}

// Dimensions are the other way round, and strides in bytes. As Triton's launcher encodes it.
driver_step::TensorMapValues MapOf(const TensorDescriptorPlan& plan, const TritonDescriptor& taken) {
  driver_step::TensorMapValues values;
  const size_t rank = plan.shape.size();
  values.type = taken.element_type();
  values.rank = static_cast<uint32_t>(rank);
  for (size_t i = 0; i < rank; ++i) {
    const size_t own = rank - 1 - i;
    values.dims[i] = static_cast<uint64_t>(plan.shape[own]);
    values.box[i] = static_cast<uint32_t>(taken.box(static_cast<int>(own)));
    values.element_strides[i] = 1;
    if (i > 0) values.byte_strides[i - 1] = static_cast<uint64_t>(plan.strides[own]) * SizeOf(plan.type);
  }
  if (taken.fp4_padded()) values.dims[0] *= 2;
  values.swizzle = taken.swizzle();
  values.l2_promotion = driver_step::ModeOf(driver_step::kL2Promotions, "128B");
  values.oob_fill = plan.oob_fill_nan ? 1 : 0;
  return values;
}

// Adds the parameters that a tensor descriptor becomes, in their order (TritonDescriptor in worker.proto).
void ExpandDescriptor(const std::string& name, const TensorDescriptorPlan& plan, const TritonDescriptor& taken,
                      StepPlan* step, std::vector<std::string>* arguments) {
  const auto add = [&](const std::string& part, uint64_t number) {
    arguments->push_back(name + " " + part);
    step->scalars[arguments->back()] = NumberPlan(number);
  };
  const auto add_sizes = [&] {
    for (size_t i = 0; i < plan.shape.size(); ++i) {
      add("extent " + std::to_string(i), static_cast<uint64_t>(plan.shape[i]));
    }
    for (size_t i = 0; i < plan.strides.size(); ++i) {
      add("stride " + std::to_string(i), static_cast<uint64_t>(plan.strides[i]));
    }
  };
  if (taken.box().empty()) {
    arguments->push_back(plan.buffer);
    add_sizes();
    add("padding", plan.oob_fill_nan ? 1 : 0);
  } else {
    arguments->push_back(name + " map");
    step->tensor_maps[arguments->back()] = {plan.buffer, MapOf(plan, taken)};
  }
  add_sizes();
}

}  // namespace

absl::StatusOr<std::map<std::string, TritonKernel>> ParseTritonBinary(std::string_view bytes) {
  TritonBinary binary;
  RETURN_IF_ERROR(DecodeMessage(FrameCodec::kJson, bytes, &binary));
  if (binary.kernels_size() > kKernelsMax) {
    return InvalidArgument("it has {} kernels; at most {} are allowed", binary.kernels_size(), kKernelsMax);
  }
  std::map<std::string, TritonKernel> kernels;
  for (TritonKernel& kernel : *binary.mutable_kernels()) {
    if (std::string why = WhyNoKernel(kernel); !why.empty()) {
      return InvalidArgument("kernel {} is not to be launched: {}", kernels.size(), why);
    }
    std::string signature = kernel.signature();
    if (signature.size() > kNameBytesMax || !kernels.emplace(std::move(signature), std::move(kernel)).second) {
      return InvalidArgument("kernel {} has no name of its own", kernels.size());
    }
  }
  return kernels;
}

TritonScratch GlobalScratchOf(const TritonKernel& kernel, const StepPlan& step) {
  return ScratchOf(kernel, step, kernel.global_scratch_bytes(), kernel.global_scratch_alignment());
}

TritonScratch ProfileScratchOf(const TritonKernel& kernel, const StepPlan& step) {
  return ScratchOf(kernel, step, kernel.profile_scratch_bytes(), kernel.profile_scratch_alignment());
}

int PassedParameters(const TritonKernel& kernel) {
  int passed = 0;
  for (const int parameter : kernel.parameters()) {
    const TritonDescriptor* descriptor = DescriptorOf(kernel, parameter);
    if (descriptor == nullptr) {
      ++passed;
    } else {
      const int sizes = 2 * descriptor->rank();
      passed += 1 + sizes + (descriptor->box().empty() ? sizes + 1 : 0);
    }
  }
  return passed;
}

absl::Status CompleteTritonStep(const TritonKernel& kernel, uint64_t global_scratch, uint64_t profile_scratch,
                                StepPlan* step) {
  constexpr uint32_t kThreadsOfWarp = 32;
  std::vector<std::string> arguments;
  for (const int parameter : kernel.parameters()) {
    if (parameter == kGlobalScratch || parameter == kProfileScratch) {
      const bool is_global = parameter == kGlobalScratch;
      arguments.emplace_back(is_global ? kGlobalScratchName : kProfileScratchName);
      step->scalars[arguments.back()] = NumberPlan(is_global ? global_scratch : profile_scratch);
      continue;
    }
    if (static_cast<size_t>(parameter) >= step->arguments.size()) {
      return InvalidArgument("{} takes argument {}, but {} are passed", step->entry, parameter, step->arguments.size());
    }
    const std::string& name = step->arguments[static_cast<size_t>(parameter)];
    const auto descriptor = step->tensor_descriptors.find(name);
    const TritonDescriptor* taken = DescriptorOf(kernel, parameter);
    const size_t dimensions = descriptor == step->tensor_descriptors.end() ? 0 : descriptor->second.shape.size();
    const size_t wanted = taken == nullptr ? 0 : static_cast<size_t>(taken->rank());
    if (dimensions != wanted) {
      return InvalidArgument("{} takes argument {} as a tensor descriptor with {} dimensions, but '{}' has {}",
                             step->entry, parameter, wanted, name, dimensions);
    }
    if (taken == nullptr) {
      arguments.push_back(name);
    } else {
      ExpandDescriptor(name, descriptor->second, *taken, step, &arguments);
    }
  }
  step->entry = kernel.signature();
  step->arguments = std::move(arguments);
  step->block = {kThreadsOfWarp * static_cast<uint32_t>(kernel.num_warps()), 1, 1};
  step->dynamic_shared_bytes = static_cast<uint32_t>(kernel.shared_bytes());
  if (kernel.num_ctas() > 1) {
    const auto blocks = static_cast<uint32_t>(kernel.num_ctas());
    if (step->grid[0] > std::numeric_limits<int32_t>::max() / blocks) {
      return InvalidArgument("{} has {} programs of {} blocks each in its grid, which is more than there can be",
                             step->entry, step->grid[0], blocks);
    }
    step->grid[0] *= blocks;
    step->cluster = {blocks, 1, 1};
    step->spread_clusters = true;
  }
  step->attributes.set_non_portable_cluster(kernel.num_ctas() > kPortableCtasMax);
  // As Triton's launcher prefers shared memory to cache for such functions.
  if (kernel.shared_bytes() > kSharedBytesUsual) step->attributes.set_shared_memory_carveout_percent(100);
  step->attributes.set_cooperative(kernel.cooperative());
  step->attributes.set_programmatic_stream_serialization(kernel.programmatic_launch());
  return absl::OkStatus();
}

}  // namespace tunefarm
