// A package file, checked and ready to be read where it lies.
//
// Threads: const use from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "client/launch/formula.h"
#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/package_format.h"

namespace tunefarm::launch {

class Package {
 public:
  // Maps the file and checks all of it; see tunefarm_package_open.
  static tunefarm_status Open(const char* path, std::shared_ptr<const Package>* package, tunefarm_error* error);
  // The same of bytes, which are copied.
  static tunefarm_status Copy(const void* bytes, size_t size, std::shared_ptr<const Package>* package,
                              tunefarm_error* error);

  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;
  ~Package();

  // Whether the other one has the same content, whenever either was made.
  bool HasContentOf(const Package& other) const;

  // Everything that a record refers to exists, is in its limits and of the right kind.
  std::span<const package::KernelRecord> kernels() const { return All<package::KernelRecord>(header_.kernels); }
  std::span<const package::DimRecord> dims() const { return All<package::DimRecord>(header_.dims); }
  std::span<const package::ChoiceRecord> choices() const { return All<package::ChoiceRecord>(header_.choices); }
  std::span<const package::PairRecord> pairs() const { return All<package::PairRecord>(header_.pairs); }
  std::span<const package::BufferRecord> buffers() const { return All<package::BufferRecord>(header_.buffers); }
  std::span<const package::StepRecord> steps() const { return All<package::StepRecord>(header_.steps); }
  std::span<const package::ArgumentRecord> arguments() const { return All<package::ArgumentRecord>(header_.arguments); }
  std::span<const package::TensorMapRecord> tensor_maps() const {
    return All<package::TensorMapRecord>(header_.tensor_maps);
  }
  std::span<const package::ClassRecord> classes() const { return All<package::ClassRecord>(header_.classes); }
  std::span<const package::BinaryRecord> binaries() const { return All<package::BinaryRecord>(header_.binaries); }

  // Ended by a zero byte; lives as long as the package. "" for kNone.
  const char* String(uint32_t number) const;
  // Strings point into the package.
  const expression::Cell& ValueOf(uint32_t number) const { return values_[number]; }
  Program Formula(uint32_t number) const;
  std::span<const std::byte> Bytes(const package::BinaryRecord& binary) const;

 private:
  friend class PackageCheck;
  Package(const void* data, size_t size) : data_(static_cast<const std::byte*>(data)), size_(size) {}

  // The records of a section, which PackageCheck has found to lie within the file.
  template <typename Record>
  std::span<const Record> All(const package::Section& section) const {
    return {reinterpret_cast<const Record*>(data_ + section.offset), section.count};
  }

  const std::byte* const data_;  // mapped
  const size_t size_;
  package::Header header_ = {};
  std::vector<expression::Cell> values_;
  std::vector<expression::Instruction> code_;
};

}  // namespace tunefarm::launch
