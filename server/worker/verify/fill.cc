#include "server/worker/verify/fill.h"

#include <cmath>
#include <cstring>

#include "server/base/status.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {
namespace {

using v1::DataType;

static_assert(kTunefarmI8 == static_cast<int>(DataType::DATA_TYPE_I8));
static_assert(kTunefarmU64 == static_cast<int>(DataType::DATA_TYPE_U64));
static_assert(kTunefarmF16 == static_cast<int>(DataType::DATA_TYPE_F16));
static_assert(kTunefarmF64 == static_cast<int>(DataType::DATA_TYPE_F64));
static_assert(kTunefarmF8E4M3 == static_cast<int>(DataType::DATA_TYPE_F8E4M3));
static_assert(sizeof(TunefarmFill) == 56);

void SetIntegerRange(double low, double high, TunefarmFill* planned) {
  // Inclusive bounds; all of u64 has 2^64 values, which the span writes as 0.
  planned->range_low = tunefarm_integer_of_double(std::ceil(low), planned->type);
  planned->range_span = tunefarm_integer_of_double(std::floor(high), planned->type) - planned->range_low + 1;
}

absl::Status PlanUniform(const v1::UniformFill& uniform, DataType type, std::string_view buffer,
                         TunefarmFill* planned) {
  if (!(uniform.low() < uniform.high()) || !std::isfinite(uniform.low()) || !std::isfinite(uniform.high())) {
    return InvalidArgument("the uniform fill of {} needs finite bounds with high above low, but has low {} and high {}",
                           buffer, uniform.low(), uniform.high());
  }
  planned->kind = kTunefarmFillUniform;
  planned->first = uniform.low();
  planned->second = uniform.high();
  if (!IsFloatType(type)) {
    SetIntegerRange(uniform.low(), uniform.high(), planned);
    return absl::OkStatus();
  }
  // Otherwise no value of the type lies in the interval, and stepping below `high` would leave it.
  const double low =
      tunefarm_double_of_element(tunefarm_element_of_double(uniform.low(), planned->type), planned->type);
  if (!std::isfinite(low) || !(low < uniform.high())) {
    return InvalidArgument("the uniform fill of {} has no value of its element type between {} and {}", buffer,
                           uniform.low(), uniform.high());
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t FillStream(std::string_view buffer) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : buffer) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

absl::StatusOr<TunefarmFill> PlanFill(const v1::Fill& fill, DataType type, std::string_view buffer, uint64_t seed) {
  TunefarmFill planned = {};
  planned.seed = seed;
  planned.stream = FillStream(buffer);
  planned.type = static_cast<int>(type);
  planned.kind = kTunefarmFillConstant;
  switch (fill.kind_case()) {
    case v1::Fill::kZeros:
      return planned;
    case v1::Fill::kConstant:
      planned.first = fill.constant().value();
      return planned;
    case v1::Fill::kUniform: {
      const absl::Status status = PlanUniform(fill.uniform(), type, buffer, &planned);
      if (!status.ok()) return status;
      return planned;
    }
    case v1::Fill::kIota:
      planned.kind = kTunefarmFillIota;
      planned.first = fill.iota().start();
      planned.second = fill.iota().step() == 0 ? 1 : fill.iota().step();
      return planned;
    case v1::Fill::kPrepareStep:
      return InvalidArgument("the data of {} comes from prepare step {}, not from a formula", buffer,
                             fill.prepare_step());
    case v1::Fill::kFile:
      return InvalidArgument("the data of {} comes from a file, not from a formula", buffer);
    case v1::Fill::kNormal:
      if (!IsFloatType(type)) {
        return InvalidArgument("the normal fill of {} needs a floating-point element type; take a uniform fill",
                               buffer);
      }
      break;
    case v1::Fill::KIND_NOT_SET:
      break;
  }
  if (!IsFloatType(type)) {
    planned.kind = kTunefarmFillUniform;
    planned.range_low = 0;
    planned.range_span = 256;
    return planned;
  }
  planned.kind = kTunefarmFillNormal;
  planned.first = fill.normal().mean();
  planned.second = fill.normal().deviation() == 0 ? 1 : fill.normal().deviation();
  return planned;
}

void FillElements(const TunefarmFill& fill, uint64_t first, std::span<std::byte> output) {
  const size_t size = SizeOf(static_cast<DataType>(fill.type));
  const uint64_t count = output.size() / size;
  std::byte* next = output.data();
  for (uint64_t done = 0; done < count;) {
    const uint64_t index = first + done;
    unsigned long long pair[2];
    tunefarm_fill_pair(&fill, index / 2, pair);
    // The low bytes of a little-endian word are the element.
    for (uint64_t half = index % 2; half < 2 && done < count; ++half, ++done, next += size) {
      std::memcpy(next, &pair[half], size);
    }
  }
}

}  // namespace tunefarm
