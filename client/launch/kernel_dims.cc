#include "client/launch/kernel_dims.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstring>
#include <string_view>

#include "client/launch/failure.h"

namespace tunefarm::launch {

using namespace tunefarm::package;  // NOLINT: the records
using expression::Cell;

namespace {

static_assert(TUNEFARM_BOOL == int{kBool} && TUNEFARM_INT == int{kInt});
static_assert(TUNEFARM_FLOAT == int{kFloat} && TUNEFARM_STRING == int{kString});

bool IsSame(const Cell& a, const Cell& b) {
  if (a.type != b.type) return false;
  if (a.type != ValueType::kString) return a.int_value == b.int_value;
  return std::string_view(a.string_value, a.string_bytes) == std::string_view(b.string_value, b.string_bytes);
}

// Whether choices may differ by the dim: a launch gives it, unless it was fixed at load.
bool IsLookedUp(const DimRecord& dim) { return dim.bind == kRun && (dim.kind == kInt || dim.kind == kBool); }

// What a launch gives such a dim.
Cell CellOf(const DimRecord& dim, int64_t value) {
  return dim.kind == kBool ? Cell::Bool(value != 0) : Cell::Int(value);
}

const char* KindName(uint32_t kind) {
  constexpr const char* kNames[] = {"a bool", "an int", "a float", "a string"};
  return kind <= kString ? kNames[kind] : "nothing";
}

}  // namespace

std::string TextOf(const Cell& cell) {
  char text[64];
  switch (cell.type) {
    case ValueType::kBool:
      return cell.int_value != 0 ? "true" : "false";
    case ValueType::kString:
      return std::string(cell.string_value, cell.string_bytes);
    case ValueType::kInt:
      return std::string(text, std::to_chars(text, text + sizeof(text), cell.int_value).ptr);
    case ValueType::kFloat:
      break;
  }
  std::string number(text, std::to_chars(text, text + sizeof(text), cell.float_value).ptr);
  return number.find_first_of(".en") == std::string::npos ? number + ".0" : number;
}

tunefarm_status KernelDims::Fix(const Package& package, const KernelRecord& kernel, const tunefarm_dim* dims,
                                size_t count, tunefarm_error* error) {
  package_ = &package;
  kernel_ = &kernel;
  fixed_.assign(kernel_->dims, Cell::Int(0));
  is_fixed_.assign(kernel_->dims, false);
  texts_.reserve(kernel_->dims);  // never again: cells point into it
  for (size_t i = 0; i < count; ++i) {
    uint32_t number = 0;
    if (dims[i].name == nullptr) {
      return Fail(error, TUNEFARM_INVALID_ARGUMENT, "Dim %zu of the call has no name.", i);
    }
    while (number < kernel_->dims && std::strcmp(name(number), dims[i].name) != 0) ++number;
    if (number == kernel_->dims) {
      return Fail(error, TUNEFARM_INVALID_ARGUMENT, "The kernel %s has no dim '%s'.", kernel_name(), dims[i].name);
    }
    if (is_fixed_[number]) {
      return Fail(error, TUNEFARM_INVALID_ARGUMENT, "The dim '%s' is given twice.", dims[i].name);
    }
    const tunefarm_status status = FixOne(number, dims[i], error);
    if (status != TUNEFARM_OK) return status;
  }
  for (uint32_t number = 0; number < kernel_->dims; ++number) {
    if (is_fixed_[number]) continue;
    const DimRecord& own = record(number);
    if (IsLookedUp(own)) {
      launch_dims_.push_back(number);
      continue;
    }
    if (own.default_value == kNone) {
      return Fail(error, TUNEFARM_INVALID_ARGUMENT, "The kernel %s needs the dim '%s' when it is loaded.",
                  kernel_name(), name(number));
    }
    fixed_[number] = package_->ValueOf(own.default_value);
    is_fixed_[number] = true;
  }
  for (uint32_t number = 0; number < kernel_->dims; ++number) {
    if (IsLookedUp(record(number))) lookup_dims_.push_back(number);
  }
  std::sort(lookup_dims_.begin(), lookup_dims_.end(),
            [this](uint32_t a, uint32_t b) { return std::strcmp(name(a), name(b)) < 0; });
  return TUNEFARM_OK;
}

tunefarm_status KernelDims::FixOne(uint32_t number, const tunefarm_dim& given, tunefarm_error* error) {
  const DimRecord& own = record(number);
  Cell cell = Cell::Int(given.value.number);
  bool fits = false;
  switch (given.type) {
    case TUNEFARM_BOOL:
      fits = own.kind == kBool && (given.value.number == 0 || given.value.number == 1);
      cell.type = ValueType::kBool;
      break;
    case TUNEFARM_INT:
      fits = own.kind == kInt || own.kind == kFloat;
      if (own.kind == kFloat) cell = Cell::Float(static_cast<double>(given.value.number));
      break;
    case TUNEFARM_FLOAT:
      fits = own.kind == kFloat;
      cell = Cell::Float(given.value.real);
      break;
    case TUNEFARM_STRING: {
      fits = own.kind == kString && given.value.text != nullptr && std::strlen(given.value.text) <= kStringBytesMax;
      if (!fits) break;
      const std::string& text = texts_.emplace_back(given.value.text);
      cell = Cell::String(text.data(), static_cast<uint32_t>(text.size()));
      break;
    }
  }
  if (!fits) {
    return Fail(error, TUNEFARM_INVALID_ARGUMENT, "The dim '%s' of %s takes %s, and was given something else.",
                given.name, kernel_name(), KindName(own.kind));
  }
  if (!Allows(own, cell)) {
    return Fail(error, TUNEFARM_INVALID_ARGUMENT, "The dim '%s' of %s cannot be %s.", given.name, kernel_name(),
                TextOf(cell).c_str());
  }
  fixed_[number] = cell;
  is_fixed_[number] = true;
  return TUNEFARM_OK;
}

bool KernelDims::Allows(const DimRecord& dim, const Cell& value) const {
  if (dim.values == 0) return dim.kind != kInt || (value.int_value >= dim.min && value.int_value <= dim.max);
  for (uint32_t i = 0; i < dim.values; ++i) {
    if (IsSame(package_->ValueOf(dim.first_value + i), value)) return true;
  }
  return false;
}

std::vector<tunefarm_dim> KernelDims::Fixed() const {
  std::vector<tunefarm_dim> dims;
  for (uint32_t number = 0; number < kernel_->dims; ++number) {
    if (!is_fixed_[number]) continue;
    const Cell& cell = fixed_[number];
    tunefarm_dim& given = dims.emplace_back();
    given.name = name(number);
    given.type = static_cast<tunefarm_value_type>(cell.type);
    if (cell.type == ValueType::kFloat) {
      given.value.real = cell.float_value;
    } else if (cell.type == ValueType::kString) {
      given.value.text = cell.string_value;  // of a package or of texts_: both end by a zero byte
    } else {
      given.value.number = cell.int_value;
    }
  }
  return dims;
}

std::string KernelDims::FixedText() const {
  std::string text;
  for (uint32_t number = 0; number < kernel_->dims; ++number) {
    if (IsLookedUp(record(number))) continue;
    text += (text.empty() ? "" : ",") + std::string(name(number)) + "=" + TextOf(fixed_[number]);
  }
  return text;
}

bool KernelDims::HasFixedOf(const ChoiceRecord& choice) const {
  for (uint32_t number = 0; number < kernel_->dims; ++number) {
    const DimRecord& own = record(number);
    // The default config's dims at run time are no problem that it was tuned for.
    if (IsLookedUp(own) || (choice.kind == kDefault && own.bind == kRun)) continue;
    if (!IsSame(package_->ValueOf(choice.first_dim_value + number), fixed_[number])) return false;
  }
  return true;
}

std::string KernelDims::LaunchNames() const {
  std::string names;
  for (const uint32_t number : launch_dims_) names += (names.empty() ? "" : ", ") + std::string(name(number));
  return names.empty() ? "none" : names;
}

tunefarm_status KernelDims::CheckSame(const KernelDims& old, tunefarm_error* error) const {
  // What is fixed here was fixed there: Fix took all of those dims, and there are as many.
  bool is_same = kernel_->dims == old.kernel_->dims && launch_dims_.size() == old.launch_dims_.size();
  for (size_t i = 0; i < launch_dims_.size() && is_same; ++i) {
    const uint32_t mine = launch_dims_[i], theirs = old.launch_dims_[i];
    is_same = record(mine).kind == old.record(theirs).kind && std::strcmp(name(mine), old.name(theirs)) == 0;
  }
  if (is_same) return TUNEFARM_OK;
  return Fail(error, TUNEFARM_INCOMPATIBLE,
              "The package's %s has other dims (a launch gives %s) than the loaded one (%s); load it by itself.",
              kernel_name(), LaunchNames().c_str(), old.LaunchNames().c_str());
}

tunefarm_status KernelDims::CheckLaunch(const int64_t* dims, tunefarm_error* error) const {
  for (size_t i = 0; i < launch_dims_.size(); ++i) {
    const DimRecord& dim = record(launch_dims_[i]);
    const int64_t value = dims[i];
    const bool is_of_type = dim.kind != kBool || value == 0 || value == 1;
    if (is_of_type && Allows(dim, CellOf(dim, value))) continue;
    if (dim.values > 0 || dim.kind == kBool) {
      return Fail(error, TUNEFARM_INVALID_ARGUMENT, "%s: the dim '%s' cannot be %" PRId64 ".", kernel_name(),
                  name(launch_dims_[i]), value);
    }
    return Fail(error, TUNEFARM_INVALID_ARGUMENT,
                "%s: the dim '%s' cannot be %" PRId64 "; it is from %" PRId64 " to %" PRId64 ".", kernel_name(),
                name(launch_dims_[i]), value, dim.min, dim.max);
  }
  return TUNEFARM_OK;
}

void KernelDims::FillSlots(const int64_t* launch_dims, Cell* slots) const {
  std::copy(fixed_.begin(), fixed_.end(), slots);
  for (size_t i = 0; i < launch_dims_.size(); ++i) {
    const uint32_t number = launch_dims_[i];
    slots[number] = CellOf(record(number), launch_dims[i]);
  }
}

void KernelDims::LookupValues(const Cell* slots, int64_t* values) const {
  for (size_t i = 0; i < lookup_dims_.size(); ++i) values[i] = slots[lookup_dims_[i]].int_value;
}

}  // namespace tunefarm::launch
