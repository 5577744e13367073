#include "server/device/device_class.h"

#include <fmt/core.h>

#include <array>
#include <functional>
#include <iterator>
#include <map>

#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr size_t kTextMax = 256;

// One numeric property: its name in expressions and messages, here and in the message. One table, so that ids,
// constants and conversions cannot disagree about what a class is made of.
struct IntField {
  std::string_view name;
  int DeviceClass::*member;
  int32_t (v1::DeviceClass::*get)() const;
  void (v1::DeviceClass::*set)(int32_t);
};
struct WideField {
  std::string_view name;
  int64_t DeviceClass::*member;
  int64_t (v1::DeviceClass::*get)() const;
  void (v1::DeviceClass::*set)(int64_t);
};

#define TUNEFARM_FIELD(field) \
  { #field, &DeviceClass::field, &v1::DeviceClass::field, &v1::DeviceClass::set_##field }
constexpr IntField kIntFields[] = {
    TUNEFARM_FIELD(compute_capability),
    TUNEFARM_FIELD(sm_count),
    TUNEFARM_FIELD(registers_per_sm),
    TUNEFARM_FIELD(registers_per_block),
    TUNEFARM_FIELD(shared_bytes_per_sm),
    TUNEFARM_FIELD(shared_bytes_per_block),
    TUNEFARM_FIELD(shared_bytes_per_block_optin),
    TUNEFARM_FIELD(reserved_shared_bytes_per_block),
    TUNEFARM_FIELD(threads_per_sm),
    TUNEFARM_FIELD(threads_per_block),
    TUNEFARM_FIELD(warp_size),
    TUNEFARM_FIELD(blocks_per_sm),
    TUNEFARM_FIELD(memory_gib),
};
constexpr WideField kWideFields[] = {TUNEFARM_FIELD(l2_bytes), TUNEFARM_FIELD(l1_bytes)};
#undef TUNEFARM_FIELD

constexpr std::string_view kAxes[] = {"x", "y", "z"};

std::string_view KindText(DeviceKind kind) { return kind == DeviceKind::kCuda ? "cuda" : "host"; }

// What each name in expressions stands for.
const std::map<std::string, std::function<Value(const DeviceClass&)>>& ConstantsByName() {
  static const auto& constants = *[] {
    auto* const made = new std::map<std::string, std::function<Value(const DeviceClass&)>>;
    const auto add = [&](std::string_view name, auto value) { made->emplace(fmt::format("device.{}", name), value); };
    add("kind", [](const DeviceClass& device) { return Value(KindText(device.kind)); });
    for (const IntField& field : kIntFields) {
      add(field.name, [&field](const DeviceClass& device) { return Value(device.*field.member); });
    }
    for (const WideField& field : kWideFields) {
      add(field.name, [&field](const DeviceClass& device) { return Value(device.*field.member); });
    }
    for (size_t axis = 0; axis < std::size(kAxes); ++axis) {
      add(fmt::format("grid_max_{}", kAxes[axis]),
          [axis](const DeviceClass& device) { return Value(device.grid_max[axis]); });
      add(fmt::format("block_max_{}", kAxes[axis]),
          [axis](const DeviceClass& device) { return Value(device.block_max[axis]); });
    }
    return made;
  }();
  return constants;
}

// "NVIDIA H200" becomes "nvidia_h200": lower-case letters and digits, everything else one underscore.
std::string Slug(std::string_view text) {
  constexpr size_t kSlugMax = 48;
  std::string slug;
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9')) {
      slug += lower;
    } else if (!slug.empty() && slug.back() != '_') {
      slug += '_';
    }
    if (slug.size() == kSlugMax) break;
  }
  while (!slug.empty() && slug.back() == '_') slug.pop_back();
  return slug.empty() ? "device" : slug;
}

// Every property, unambiguous: texts are preceded by their length.
std::string CanonicalText(const DeviceClass& device) {
  std::string text = fmt::format("device class v1\nkind={}\n", KindText(device.kind));
  for (const auto& [name, value] :
       {std::pair<std::string_view, const std::string*>{"display_name", &device.display_name},
        {"mig_profile", &device.mig_profile},
        {"compiler", &device.compiler}}) {
    text += fmt::format("{}={}:{}\n", name, value->size(), *value);
  }
  for (const IntField& field : kIntFields) text += fmt::format("{}={}\n", field.name, device.*field.member);
  for (const WideField& field : kWideFields) text += fmt::format("{}={}\n", field.name, device.*field.member);
  for (size_t axis = 0; axis < 3; ++axis) {
    text += fmt::format("grid_max_{}={}\nblock_max_{}={}\n", kAxes[axis], device.grid_max[axis], kAxes[axis],
                        device.block_max[axis]);
  }
  return text;
}

absl::Status CheckText(std::string_view field, const std::string& text) {
  if (text.size() > kTextMax) {
    return InvalidArgument("device class has a {} of {} bytes; at most {} are allowed", field, text.size(), kTextMax);
  }
  return absl::OkStatus();
}

absl::Status CheckNumber(std::string_view field, int64_t value) {
  if (value < 0) return InvalidArgument("device class has {} = {}; it must not be negative", field, value);
  return absl::OkStatus();
}

}  // namespace

std::string DeviceClass::Id() const {
  const std::string hash = Sha256(CanonicalText(*this)).Hex().substr(0, 8);
  const std::string architecture = kind == DeviceKind::kCuda ? fmt::format("sm{}", compute_capability) : "host";
  return fmt::format("{}-{}-{}x-{}g-{}", Slug(display_name), architecture, sm_count, memory_gib, hash);
}

ValueMap DeviceClass::Constants() const {
  ValueMap constants;
  for (const auto& [name, value] : ConstantsByName()) constants.emplace_hint(constants.end(), name, value(*this));
  return constants;
}

std::vector<Value> DeviceClass::ConstantValues() const {
  std::vector<Value> values;
  values.reserve(ConstantsByName().size());
  for (const auto& [name, value] : ConstantsByName()) values.push_back(value(*this));
  return values;
}

v1::DeviceClass DeviceClass::ToProto() const {
  v1::DeviceClass proto;
  proto.set_id(Id());
  proto.set_kind(kind == DeviceKind::kCuda ? v1::DEVICE_KIND_CUDA : v1::DEVICE_KIND_HOST);
  proto.set_display_name(display_name);
  proto.set_mig_profile(mig_profile);
  proto.set_compiler(compiler);
  for (const IntField& field : kIntFields) (proto.*field.set)(this->*field.member);
  for (const WideField& field : kWideFields) (proto.*field.set)(this->*field.member);
  for (const int64_t extent : grid_max) proto.add_grid_max(extent);
  for (const int extent : block_max) proto.add_block_max(extent);
  return proto;
}

absl::StatusOr<DeviceClass> DeviceClass::FromProto(const v1::DeviceClass& proto) {
  DeviceClass device;
  switch (proto.kind()) {
    case v1::DEVICE_KIND_CUDA:
      device.kind = DeviceKind::kCuda;
      break;
    case v1::DEVICE_KIND_HOST:
      device.kind = DeviceKind::kHost;
      break;
    default:
      return InvalidArgument("device class has the kind {}; it must be DEVICE_KIND_CUDA or DEVICE_KIND_HOST",
                             static_cast<int>(proto.kind()));
  }
  RETURN_IF_ERROR(CheckText("display_name", proto.display_name()));
  RETURN_IF_ERROR(CheckText("mig_profile", proto.mig_profile()));
  RETURN_IF_ERROR(CheckText("compiler", proto.compiler()));
  device.display_name = proto.display_name();
  device.mig_profile = proto.mig_profile();
  device.compiler = proto.compiler();
  for (const IntField& field : kIntFields) {
    RETURN_IF_ERROR(CheckNumber(field.name, (proto.*field.get)()));
    device.*field.member = (proto.*field.get)();
  }
  for (const WideField& field : kWideFields) {
    RETURN_IF_ERROR(CheckNumber(field.name, (proto.*field.get)()));
    device.*field.member = (proto.*field.get)();
  }
  for (const int size : {proto.grid_max_size(), proto.block_max_size()}) {
    if (size != 0 && size != 3) {
      return InvalidArgument("device class has {} extents in grid_max or block_max; it must be 3, or none", size);
    }
  }
  for (int axis = 0; axis < proto.grid_max_size(); ++axis) {
    RETURN_IF_ERROR(CheckNumber("grid_max", proto.grid_max(axis)));
    device.grid_max[static_cast<size_t>(axis)] = proto.grid_max(axis);
  }
  for (int axis = 0; axis < proto.block_max_size(); ++axis) {
    RETURN_IF_ERROR(CheckNumber("block_max", proto.block_max(axis)));
    device.block_max[static_cast<size_t>(axis)] = proto.block_max(axis);
  }
  return device;
}

}  // namespace tunefarm
