#include "client/launch/package.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "client/launch/failure.h"
#include "client/launch/package_check.h"

namespace tunefarm::launch {

using namespace tunefarm::package;  // NOLINT: the records

namespace {

// Closes itself.
struct File {
  explicit File(const char* path) : number(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (number >= 0) (void)close(number);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const int number;
};

}  // namespace

tunefarm_status Package::Open(const char* path, std::shared_ptr<const Package>* package, tunefarm_error* error) {
  const File file(path);
  struct stat status = {};
  if (file.number < 0 || fstat(file.number, &status) != 0) {
    const int reason = errno;
    return Fail(error, TUNEFARM_NOT_FOUND, "The package %s cannot be opened: %s.", path, strerrordesc_np(reason));
  }
  if (!S_ISREG(status.st_mode)) return Fail(error, TUNEFARM_BAD_PACKAGE, "%s is not a file.", path);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size < sizeof(Header)) {
    return Fail(error, TUNEFARM_BAD_PACKAGE, "%s is no package that can be read: it has fewer bytes than the header.",
                path);
  }
  if (size > kFileBytesMax) {
    return Fail(error, TUNEFARM_BAD_PACKAGE, "%s is no package that can be read: it is larger than any package.", path);
  }
  void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (data == MAP_FAILED) {
    return Fail(error, TUNEFARM_OUT_OF_MEMORY, "The package %s cannot be mapped into memory.", path);
  }
  std::shared_ptr<Package> opened(new Package(data, size));
  const tunefarm_status checked = PackageCheck(opened.get(), path, error).Check();
  if (checked == TUNEFARM_OK) *package = std::move(opened);
  return checked;
}

tunefarm_status Package::Copy(const void* bytes, size_t size, std::shared_ptr<const Package>* package,
                              tunefarm_error* error) {
  if (size < sizeof(Header)) {
    return Fail(error, TUNEFARM_BAD_PACKAGE, "%zu bytes are no package that can be read: it has %u bytes at least.",
                size, static_cast<unsigned>(sizeof(Header)));
  }
  if (size > kFileBytesMax) {
    return Fail(error, TUNEFARM_BAD_PACKAGE, "%zu bytes are no package that can be read: it has %llu bytes at most.",
                size, static_cast<unsigned long long>(kFileBytesMax));
  }
  // Mapped, so that sections are aligned as in a file.
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return Fail(error, TUNEFARM_OUT_OF_MEMORY, "There are no %zu bytes for the package.", size);
  std::memcpy(data, bytes, size);
  std::shared_ptr<Package> opened(new Package(data, size));
  const tunefarm_status checked = PackageCheck(opened.get(), "This", error).Check();
  if (checked == TUNEFARM_OK) *package = std::move(opened);
  return checked;
}

bool Package::HasContentOf(const Package& other) const {
  // Behind the checksum and the time.
  constexpr size_t kFrom = offsetof(Header, reserved);
  return size_ == other.size_ && std::memcmp(data_ + kFrom, other.data_ + kFrom, size_ - kFrom) == 0;
}

Package::~Package() { (void)munmap(const_cast<std::byte*>(data_), size_); }

const char* Package::String(uint32_t number) const {
  if (number == kNone) return "";
  const StringRecord& string = All<StringRecord>(header_.strings)[number];
  return reinterpret_cast<const char*>(data_ + header_.text.offset + string.offset);
}

Program Package::Formula(uint32_t number) const {
  const FormulaRecord& formula = All<FormulaRecord>(header_.formulas)[number];
  return {code_.data() + formula.first_instruction, values_.data(), formula.instructions, String(formula.text)};
}

std::span<const std::byte> Package::Bytes(const BinaryRecord& binary) const {
  return {data_ + header_.data.offset + binary.offset, binary.bytes};
}

}  // namespace tunefarm::launch
