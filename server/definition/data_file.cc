#include "server/definition/data_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "server/base/hash.h"
#include "server/base/status_macros.h"
#include "server/definition/checker.h"
#include "server/definition/field_error.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

std::vector<NamedDataFile> DataFilesOf(const v1::Kernel& kernel) {
  std::vector<NamedDataFile> files;
  std::set<std::string_view> digests;
  const auto add = [&](std::string field, const v1::DataFile& file) {
    if (!file.digest().empty() && !digests.insert(file.digest()).second) return;
    files.push_back({std::move(field), &file});
  };
  for (int i = 0; i < kernel.arguments_size(); ++i) {
    const v1::Argument& argument = kernel.arguments(i);
    if (argument.buffer().fill().has_file()) {
      add(fmt::format("arguments[{}].buffer.fill.file", i), argument.buffer().fill().file());
    } else if (argument.constant_symbol().fill().has_file()) {
      add(fmt::format("arguments[{}].constant_symbol.fill.file", i), argument.constant_symbol().fill().file());
    }
  }
  for (int i = 0; i < kernel.reference().files_size(); ++i) {
    add(fmt::format("reference.files[{}].file", i), kernel.reference().files(i).file());
  }
  return files;
}

std::string NameOf(const v1::DataFile& file) { return file.path().empty() ? file.digest() : file.path(); }

namespace definition {
namespace {

absl::Status CheckType(const std::string& path, const std::string& buffer, v1::DataType type,
                       const v1::DataFile& file) {
  if (file.data_type() == v1::DATA_TYPE_UNSPECIFIED || file.data_type() == type) return absl::OkStatus();
  return FieldError(path, kTypeMismatch, "the file '{}' holds {}, and {} is {}; convert one of them", NameOf(file),
                    tunefarm::NameOf(file.data_type()), buffer, tunefarm::NameOf(type));
}

absl::Status CheckFits(const std::string& path, const BufferPlan& buffer, const v1::DataFile& file) {
  RETURN_IF_ERROR(CheckType(path, fmt::format("buffer '{}'", buffer.name), buffer.type, file));
  if (file.digest().empty() || file.bytes() == buffer.bytes()) return absl::OkStatus();
  return FieldError(path, kValueOutOfRange,
                    "the elements of the file '{}' have {} bytes, and buffer '{}' has {} elements of {}, which are {} "
                    "bytes, in this problem; change the file, a dim (--dim) or the buffer's length",
                    NameOf(file), file.bytes(), buffer.name, buffer.length, tunefarm::NameOf(buffer.type),
                    buffer.bytes());
}

class ExpectedFileChecker {
 public:
  explicit ExpectedFileChecker(PlanDraft* draft) : draft_(*draft), plan_(*draft->plan) {}

  void Check() {
    const v1::Reference& reference = plan_.kernel.reference();
    if (reference.files_size() > 0 && reference.steps_size() > 0) {
      draft_.Note(FieldError("reference.files", kConflictingFields,
                             "the reference consists of steps or of files; leave one of the two out"));
      return;
    }
    for (int i = 0; i < reference.files_size(); ++i) {
      draft_.Note(CheckFile(fmt::format("reference.files[{}]", i), reference.files(i)));
    }
    if (reference.files_size() > 0) {
      draft_.Note(CheckAllOutputs());
      draft_.Note(CheckNoInputIsRandom());
    }
    if (const size_t files = DataFilesOf(plan_.kernel).size(); files > size_t{kDataFilesMax}) {
      draft_.Note(FieldError("arguments", kLimitExceeded, "{} data files are too many; at most {} are allowed", files,
                             kDataFilesMax));
    }
  }

 private:
  absl::Status CheckFile(const std::string& path, const v1::ExpectedFile& expected) {
    if (expected.buffer().empty()) return FieldError(path + ".buffer", kMissingField, "the buffer's name is missing");
    if (!names_.insert(expected.buffer()).second) {
      return FieldError(path + ".buffer", kDuplicateName, "there is already a file for buffer '{}'", expected.buffer());
    }
    RETURN_IF_ERROR(draft_.FindBuffer(path + ".buffer", expected.buffer()).status());
    const auto buffer = std::find_if(plan_.buffers.begin(), plan_.buffers.end(),
                                     [&](const BufferFormula& one) { return one.name == expected.buffer(); });
    if (buffer->access != v1::ACCESS_OUT && buffer->access != v1::ACCESS_INOUT) {
      return FieldError(path + ".buffer", kConflictingFields,
                        "buffer '{}' is no output; its access must be ACCESS_OUT or ACCESS_INOUT", buffer->name);
    }
    if (!expected.has_file()) return FieldError(path + ".file", kMissingField, "the file is missing");
    RETURN_IF_ERROR(CheckDataFile(path + ".file", buffer->type, expected.file()));
    buffer->expected = expected.file();
    buffer->expected_path = path + ".file";
    return absl::OkStatus();
  }

  absl::Status CheckAllOutputs() {
    for (const v1::Argument& argument : plan_.kernel.arguments()) {
      const v1::Access access = argument.buffer().access();
      if (access != v1::ACCESS_OUT && access != v1::ACCESS_INOUT) continue;
      if (names_.count(argument.name()) > 0) continue;
      return FieldError("reference.files", kMissingField,
                        "there is no file for output '{}'; every output needs one, or none is verified",
                        argument.name());
    }
    return absl::OkStatus();
  }

  // What is expected is the same for every seed of the inputs.
  absl::Status CheckNoInputIsRandom() {
    for (const BufferFormula& buffer : plan_.buffers) {
      const bool starts_with_data = buffer.is_constant_symbol || buffer.access == v1::ACCESS_IN ||
                                    buffer.access == v1::ACCESS_INOUT ||
                                    (buffer.access == v1::ACCESS_OUT && buffer.init == v1::INIT_FILL);
      const v1::Fill::KindCase kind = buffer.fill.kind_case();
      const bool is_random = kind == v1::Fill::KIND_NOT_SET || kind == v1::Fill::kNormal || kind == v1::Fill::kUniform;
      if (!starts_with_data || !is_random) continue;
      return FieldError(buffer.path + ".fill", kConflictingFields,
                        "the data of '{}' is random, but the expected outputs are files, which are right for one set "
                        "of inputs; fill it from a file too, or with zeros, constant or iota",
                        buffer.name);
    }
    return absl::OkStatus();
  }

  PlanDraft& draft_;
  KernelPlanAccess::Impl& plan_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace

absl::Status CheckDataFile(const std::string& path, v1::DataType type, const v1::DataFile& file) {
  if (file.path().empty() && file.digest().empty()) {
    return FieldError(path + ".path", kMissingField, "a data file needs its path, relative to the definition");
  }
  if (!file.path().empty()) RETURN_IF_ERROR(CheckSourcePath(path + ".path", file.path()));
  if (!v1::DataType_IsValid(file.data_type())) {
    return FieldError(path + ".data_type", kInvalidField, "the data type is unknown");
  }
  if (type != v1::DATA_TYPE_UNSPECIFIED) RETURN_IF_ERROR(CheckType(path, "the buffer", type, file));
  if (file.digest().empty()) return absl::OkStatus();  // The client has not filled it in yet.
  if (!Digest::FromHex(file.digest()).ok()) {
    return FieldError(path + ".digest", kInvalidField, "'{}' is no SHA-256; it has 64 lower-case hexadecimal digits",
                      file.digest().substr(0, 80));
  }
  if (file.bytes() < 1 || file.bytes() > kDataFileBytesMax) {
    return FieldError(path + ".bytes", kLimitExceeded, "the file has {} bytes; 1 to {} are allowed", file.bytes(),
                      kDataFileBytesMax);
  }
  return absl::OkStatus();
}

absl::Status CheckFilesOf(const BufferFormula& formula, const BufferPlan& buffer) {
  if (buffer.fill.has_file()) RETURN_IF_ERROR(CheckFits(formula.path + ".fill.file", buffer, buffer.fill.file()));
  if (!buffer.expected.has_value()) return absl::OkStatus();
  return CheckFits(formula.expected_path, buffer, *buffer.expected);
}

void CheckExpectedFiles(PlanDraft* draft) { ExpectedFileChecker(draft).Check(); }

}  // namespace definition
}  // namespace tunefarm
