// The dims of a kernel of a package: those that are fixed when it is loaded, and those that every launch gives.
//
// Threads: Fix by one, before others know this; const use from any. CheckLaunch, FillSlots and LookupValues allocate
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/package.h"

namespace tunefarm::launch {

// "true", "128", "0.5", "bf16".
std::string TextOf(const expression::Cell& cell);

class KernelDims {
 public:
  KernelDims() = default;
  KernelDims(const KernelDims&) = delete;  // cells point into it
  KernelDims& operator=(const KernelDims&) = delete;

  // To be called once. What is not given and is not for launches takes its default. INVALID_ARGUMENT for a dim that
  // the kernel does not have, or a value that it does not take. The package must live as long as this.
  tunefarm_status Fix(const Package& package, const package::KernelRecord& kernel, const tunefarm_dim* dims,
                      size_t count, tunefarm_error* error);

  const package::DimRecord& record(size_t number) const { return package_->dims()[kernel_->first_dim + number]; }
  const char* name(size_t number) const { return package_->String(record(number).name); }
  // Numbers of the dims that a launch gives, in order.
  const std::vector<uint32_t>& of_launches() const { return launch_dims_; }
  // Numbers of those that choices are looked up by, in the order of their names.
  const std::vector<uint32_t>& of_lookups() const { return lookup_dims_; }

  // Those that are fixed. Texts point into this.
  std::vector<tunefarm_dim> Fixed() const;
  // "N=64,dtype=bf16", without those that choices are looked up by.
  std::string FixedText() const;
  // Whether the choice is for what is fixed, but for those that choices are looked up by.
  bool HasFixedOf(const package::ChoiceRecord& choice) const;
  // INCOMPATIBLE unless launches give the same as with `old`, whose fixed dims Fix has taken.
  tunefarm_status CheckSame(const KernelDims& old, tunefarm_error* error) const;

  // INVALID_ARGUMENT where a launch gives a value that its dim does not take.
  tunefarm_status CheckLaunch(const int64_t* dims, tunefarm_error* error) const;
  // The first slots of formulas, one for each dim.
  void FillSlots(const int64_t* launch_dims, expression::Cell* slots) const;
  // The values that choices are looked up by, from slots.
  void LookupValues(const expression::Cell* slots, int64_t* values) const;

 private:
  tunefarm_status FixOne(uint32_t number, const tunefarm_dim& given, tunefarm_error* error);
  // Whether a value of the dim's type is one of its values.
  bool Allows(const package::DimRecord& dim, const expression::Cell& value) const;
  const char* kernel_name() const { return package_->String(kernel_->name); }
  std::string LaunchNames() const;

  const Package* package_ = nullptr;
  const package::KernelRecord* kernel_ = nullptr;
  std::vector<expression::Cell> fixed_;  // of each dim; of those that launches give: unused
  std::vector<std::string> texts_;       // that fixed cells point to
  std::vector<bool> is_fixed_;
  std::vector<uint32_t> launch_dims_, lookup_dims_;
};

}  // namespace tunefarm::launch
