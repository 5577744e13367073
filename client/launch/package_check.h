// The check of a package file: every offset, index, count and kind in it is validated before it is used.
#pragma once

#include <cstdint>
#include <vector>

#include "client/launch/package.h"

namespace tunefarm::launch {

// Fills the package's header, values and code, and looks at every record. Its memory is a small multiple of the file's.
class PackageCheck {
 public:
  // `name` is for messages.
  PackageCheck(Package* package, const char* name, tunefarm_error* error)
      : package_(*package), name_(name), error_(error) {}

  tunefarm_status Check();

 private:
  tunefarm_status Damaged(const char* what);
  bool SectionsLieWithin() const;
  bool StringsAreGood() const;
  bool ValuesAreGood();
  bool FormulasAreGood();
  bool BinariesAreGood() const;
  bool DimIsGood(const package::DimRecord& dim) const;
  bool KernelIsGood(const package::KernelRecord& kernel) const;
  bool ChoiceIsGood(const package::KernelRecord& kernel, const package::ChoiceRecord& choice);
  bool BufferIsGood(const package::KernelRecord& kernel, const package::BufferRecord& buffer) const;
  // Also false where comparing texts has taken too long.
  bool IsSameText(uint32_t a, uint32_t b);
  bool StepIsGood(const package::KernelRecord& kernel, const package::ChoiceRecord& choice,
                  const package::StepRecord& step) const;
  bool TensorMapIsGood(const package::KernelRecord& kernel, const package::ChoiceRecord& choice,
                       const package::TensorMapRecord& map) const;
  // Whether there is such a formula and it reads no slots but the kernel's.
  bool IsFormula(const package::KernelRecord& kernel, uint32_t formula) const;
  bool IsString(uint32_t string) const { return string < package_.header_.strings.count; }
  // `count` records from `first` on, of those of the section.
  static bool IsRange(const package::Section& section, uint32_t first, uint32_t count) {
    return count <= section.count && first <= section.count - count;
  }

  Package& package_;
  const char* const name_;
  tunefarm_error* const error_;
  std::vector<uint32_t> slots_;  // of each formula
  uint64_t references_ = 0;      // of the choices that were checked; see kReferencesMax
  uint64_t compared_bytes_ = 0;  // of texts
};

}  // namespace tunefarm::launch
