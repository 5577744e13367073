#include "server/definition/triton_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

std::string TypeName(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F16:
      return "fp16";
    case v1::DATA_TYPE_F32:
      return "fp32";
    case v1::DATA_TYPE_F64:
      return "fp64";
    case v1::DATA_TYPE_F8E4M3:
      return "fp8e4nv";
    default:
      return std::string(NameOf(type));  // bf16 and the integers are called alike
  }
}

std::string Specialised(const ScalarPlan& scalar) {
  if (IsFloatType(scalar.type) || !scalar.is_specialised) return TypeName(scalar.type);
  uint64_t bits = 0;
  std::memcpy(&bits, scalar.bytes.data(), SizeOf(scalar.type));  // little-endian, as all that has a GPU
  if (bits == 1) return TypeName(scalar.type) + "=1";
  return TypeName(scalar.type) + (bits % 16 == 0 ? ":16" : "");
}

}  // namespace

std::string TritonSignature(const StepPlan& step, const std::vector<BufferPlan>& buffers) {
  std::string text = step.entry + "(";
  for (const std::string& name : step.arguments) {
    if (text.back() != '(') text += ",";
    if (const auto scalar = step.scalars.find(name); scalar != step.scalars.end()) {
      text += Specialised(scalar->second);
      continue;
    }
    if (const auto found = step.tensor_descriptors.find(name); found != step.tensor_descriptors.end()) {
      text +=
          fmt::format("tensordesc<{}[{}]>", TypeName(found->second.type), fmt::join(found->second.block_shape, ","));
      continue;
    }
    const auto buffer =
        std::find_if(buffers.begin(), buffers.end(), [&name](const BufferPlan& one) { return one.name == name; });
    text += "*" + (buffer == buffers.end() ? std::string() : TypeName(buffer->type));
  }
  return text + ")";
}

absl::StatusOr<std::vector<std::string>> TritonSignatures(const KernelPlan& plan, const ResolvedProblem& problem,
                                                          const Config& config, const DeviceClass& device,
                                                          bool for_reference) {
  const std::vector<Sequence> sequences =
      for_reference ? std::vector{Sequence::kPreparePerProblem, Sequence::kReference, Sequence::kBaseline}
                    : std::vector{Sequence::kLaunches, Sequence::kPreparePerConfig};
  ASSIGN_OR_RETURN(const std::vector<BufferPlan> buffers, plan.Buffers(problem, config, device));
  std::set<std::string> signatures;
  for (const Sequence sequence : sequences) {
    ASSIGN_OR_RETURN(const std::vector<StepPlan> steps, plan.Steps(sequence, problem, config, device));
    for (const StepPlan& step : steps) {
      if (step.kind == StepPlan::Kind::kKernel) signatures.insert(TritonSignature(step, buffers));
    }
  }
  return std::vector<std::string>(signatures.begin(), signatures.end());
}

}  // namespace tunefarm
