#include "client/cli/data/definition_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "client/cli/options/problem_options.h"
#include "client/cli/output.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm::cli {
namespace {

struct FileSetting {
  std::string name;  // of a buffer
  std::string path;
};

absl::StatusOr<std::vector<FileSetting>> ReadFileSettings(std::string_view flag,
                                                          const std::vector<std::string>& texts) {
  std::vector<FileSetting> settings;
  std::set<std::string> names;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return InvalidArgument("{0} {1}: write {0} NAME=FILE", flag, text);
    }
    settings.push_back({text.substr(0, equals), text.substr(equals + 1)});
    if (!names.insert(settings.back().name).second) {
      return InvalidArgument("{} {}: there is already a file for {}", flag, text, settings.back().name);
    }
  }
  return settings;
}

std::string NumpyTypeName(v1::DataType type) {
  const std::string name(NameOf(type));
  return (name.front() == 'f' ? "float" : name.front() == 'u' ? "uint" : "int") + name.substr(1);
}

// Whether a .npy file's elements may be the bits of a type that NumPy has not. Truth values (b1) and float8_e5m2 (f1)
// are no F8E4M3.
bool AreBitsOf(v1::DataType type, std::string_view dtype) {
  if (type == v1::DATA_TYPE_F8E4M3) return dtype == "V1" || dtype == "u1";
  return type == v1::DATA_TYPE_BF16 && (dtype == "V2" || dtype == "u2" || dtype == "i2");
}

// What a message calls the elements of a .npy file.
std::string ShownType(const OpenDataFile& file) {
  if (file.dtype() == "f1") return "float8_e5m2 (dtype f1)";
  if (file.dtype() == "b1") return "truth values";
  if (file.data_type() != v1::DATA_TYPE_UNSPECIFIED) return std::string(NameOf(file.data_type()));
  return fmt::format("raw elements of {} bits", 8 * file.element_bytes());
}

// Every type that the argument may have.
std::vector<v1::DataType> TypesOfArgument(const v1::Kernel& kernel, const v1::Argument& argument) {
  if (argument.has_constant_symbol()) return {argument.constant_symbol().data_type()};
  const v1::Buffer& buffer = argument.buffer();
  if (buffer.data_type_dim().empty()) return {buffer.data_type()};
  std::vector<v1::DataType> types;
  for (const v1::Dim& dim : kernel.dims()) {
    if (dim.name() != buffer.data_type_dim()) continue;
    for (const v1::Value& value : dim.values()) {
      if (const auto type = DataTypeOfDim(value.string_value()); type.has_value()) types.push_back(*type);
    }
  }
  return types;
}

// Reads the files of one definition, and keeps them.
class DataDescriber {
 public:
  DataDescriber(v1::Kernel* kernel, const std::string& folder) : kernel_(*kernel), folder_(folder) {}

  absl::Status UseInput(const FileSetting& setting) {
    ASSIGN_OR_RETURN(v1::Argument* const argument, FindArgument("--input", setting));
    v1::Fill* fill = nullptr;
    if (argument->has_constant_symbol()) {
      fill = argument->mutable_constant_symbol()->mutable_fill();
    } else {
      const v1::Buffer& buffer = argument->buffer();
      const bool is_input = buffer.access() == v1::ACCESS_IN || buffer.access() == v1::ACCESS_INOUT;
      RETURN_IF_ERROR(CheckNotScratch("--input", setting, buffer));
      if (!is_input && (buffer.access() != v1::ACCESS_OUT || buffer.init() != v1::INIT_FILL)) {
        return InvalidArgument(
            "--input {}: the kernel does not read buffer '{}'; --expected {}=FILE says what an output must equal",
            setting.name, setting.name, setting.name);
      }
      fill = argument->mutable_buffer()->mutable_fill();
    }
    if (fill->has_prepare_step()) replaced_steps_.insert(fill->prepare_step());
    fill->mutable_file()->Clear();
    return UseFile(setting, *argument, fill->mutable_file());
  }

  absl::Status UseExpected(const FileSetting& setting) {
    ASSIGN_OR_RETURN(const v1::Argument* const argument, FindArgument("--expected", setting));
    RETURN_IF_ERROR(CheckNotScratch("--expected", setting, argument->buffer()));
    const v1::Access access = argument->buffer().access();
    if (access != v1::ACCESS_OUT && access != v1::ACCESS_INOUT) {
      return InvalidArgument("--expected {}: the kernel does not write '{}'; --input {}=FILE says what it holds",
                             setting.name, setting.name, setting.name);
    }
    kernel_.clear_unverified_reason();
    v1::Reference* const reference = kernel_.mutable_reference();
    reference->clear_steps();
    auto* const files = reference->mutable_files();
    auto known = std::find_if(files->begin(), files->end(),
                              [&](const v1::ExpectedFile& file) { return file.buffer() == setting.name; });
    v1::ExpectedFile* const expected = known != files->end() ? &*known : files->Add();
    expected->set_buffer(setting.name);
    expected->clear_file();
    return UseFile(setting, *argument, expected->mutable_file());
  }

  // Steps that filled nothing but what the files now fill. Others would write over the files' data.
  absl::Status DropPrepareSteps() {
    for (const std::string& name : replaced_steps_) {
      std::string others;
      for (const v1::Argument& argument : kernel_.arguments()) {
        const v1::Fill& fill =
            argument.has_constant_symbol() ? argument.constant_symbol().fill() : argument.buffer().fill();
        if (fill.has_prepare_step() && fill.prepare_step() == name) {
          others += (others.empty() ? "" : ", ") + argument.name();
        }
      }
      if (!others.empty()) {
        return InvalidArgument("--input: prepare step '{}' fills {} too; give --input for all that it fills", name,
                               others);
      }
      auto* const steps = kernel_.mutable_prepare();
      steps->erase(std::remove_if(steps->begin(), steps->end(),
                                  [&](const v1::PrepareStep& step) { return step.step().name() == name; }),
                   steps->end());
    }
    return absl::OkStatus();
  }

  // All that the definition names by path.
  absl::Status UsePaths() {
    for (v1::Argument& argument : *kernel_.mutable_arguments()) {
      // No fill is made where there is none.
      if (argument.constant_symbol().fill().has_file()) {
        RETURN_IF_ERROR(UsePath(argument, argument.mutable_constant_symbol()->mutable_fill()->mutable_file()));
      } else if (argument.buffer().fill().has_file()) {
        RETURN_IF_ERROR(UsePath(argument, argument.mutable_buffer()->mutable_fill()->mutable_file()));
      }
    }
    // No reference is made where there is none.
    if (kernel_.reference().files_size() == 0) return absl::OkStatus();
    for (v1::ExpectedFile& expected : *kernel_.mutable_reference()->mutable_files()) {
      const auto& arguments = kernel_.arguments();
      const auto argument = std::find_if(arguments.begin(), arguments.end(), [&](const v1::Argument& one) {
        return one.name() == expected.buffer() && one.has_buffer();
      });
      if (argument != arguments.end()) RETURN_IF_ERROR(UsePath(*argument, expected.mutable_file()));
    }
    return absl::OkStatus();
  }

  std::vector<DescribedFile> TakeFiles() { return std::move(files_); }

 private:
  static absl::Status CheckNotScratch(std::string_view flag, const FileSetting& setting, const v1::Buffer& buffer) {
    if (buffer.access() != v1::ACCESS_SCRATCH) return absl::OkStatus();
    return InvalidArgument("{} {}: buffer '{}' is scratch space, which takes no file and is compared with none", flag,
                           setting.name, setting.name);
  }

  absl::StatusOr<v1::Argument*> FindArgument(std::string_view flag, const FileSetting& setting) {
    std::string names;
    for (v1::Argument& argument : *kernel_.mutable_arguments()) {
      if (!argument.has_buffer() && !argument.has_constant_symbol()) continue;
      if (argument.name() == setting.name) return &argument;
      names += (names.empty() ? "" : ", ") + argument.name();
    }
    if (names.empty()) {
      return InvalidArgument("{} {}: the kernel has no buffers{}", flag, setting.name,
                             kernel_.language() == v1::LANGUAGE_PYTHON ? "; its module makes its data" : "");
    }
    return InvalidArgument("{} {}: the kernel has no buffer of that name; its buffers are {}", flag, setting.name,
                           names);
  }

  absl::Status UseFile(const FileSetting& setting, const v1::Argument& argument, v1::DataFile* message) {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenForReading(setting.path));
    const std::string shown = std::filesystem::path(setting.path).filename().string();
    // Other names are no paths of a definition; this one is only for people.
    if (Visible(shown) == shown && shown.find_first_of("\\\n\t") == std::string::npos) message->set_path(shown);
    return Describe(std::move(fd), setting.path, argument, message);
  }

  absl::Status UsePath(const v1::Argument& argument, v1::DataFile* message) {
    if (!message->digest().empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(UniqueFd fd, OpenForReadingBelow(folder_, message->path()));
    return Describe(std::move(fd), folder_.empty() ? message->path() : folder_ + "/" + message->path(), argument,
                    message);
  }

  absl::Status Describe(UniqueFd fd, const std::string& name, const v1::Argument& argument, v1::DataFile* message) {
    ASSIGN_OR_RETURN(OpenDataFile file, OpenDataFile::Examine(std::move(fd), name));
    ASSIGN_OR_RETURN(const v1::DataType type, TypeFor(argument, file));
    ASSIGN_OR_RETURN(std::string digest, file.Digest());
    message->set_digest(digest);
    message->set_bytes(file.bytes());
    message->set_data_type(type);
    files_.push_back({std::move(file), std::move(digest)});
    return absl::OkStatus();
  }

  // The type to name in the definition; unspecified where the bits are the buffer's.
  absl::StatusOr<v1::DataType> TypeFor(const v1::Argument& argument, const OpenDataFile& file) const {
    const std::vector<v1::DataType> types = TypesOfArgument(kernel_, argument);
    const auto has = [&types](auto fits) { return std::any_of(types.begin(), types.end(), fits); };
    const v1::DataType own = file.data_type();
    const bool is_unknown = file.element_bytes() == 0;
    if (is_unknown || has([own](v1::DataType type) { return type == own; })) return own;
    const auto are_bits_of = [&](v1::DataType type) {
      const bool is_raw = own == v1::DATA_TYPE_UNSPECIFIED && type != v1::DATA_TYPE_F8E4M3;
      return AreBitsOf(type, file.dtype()) || (is_raw && static_cast<int64_t>(SizeOf(type)) == file.element_bytes());
    };
    if (has(are_bits_of)) return v1::DATA_TYPE_UNSPECIFIED;
    std::string wanted;
    for (const v1::DataType type : types) wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", NameOf(type));
    const std::string advice =
        types.size() != 1 ? "convert it"
        : types[0] == v1::DATA_TYPE_BF16 || types[0] == v1::DATA_TYPE_F8E4M3
            ? fmt::format("save the bits of its {} elements as numpy.uint{}", NameOf(types[0]), 8 * SizeOf(types[0]))
            : fmt::format("save array.astype(numpy.{}) instead", NumpyTypeName(types[0]));
    return InvalidArgument("{} holds {}, and '{}' is {}; {}", file.name(), ShownType(file), argument.name(), wanted,
                           advice);
  }

  v1::Kernel& kernel_;
  const std::string folder_;
  std::set<std::string> replaced_steps_;  // by --input
  std::vector<DescribedFile> files_;
};

}  // namespace

void DataOptions::AddTo(CLI::App* command) {
  AddListOption(command, "--input", &inputs, "Fill a buffer from a file: .npy, or raw elements. May be repeated.")
      ->type_name("NAME=FILE");
  AddListOption(command, "--expected", &expected,
                "What an output must equal, in place of the definition's reference: a file for each output.")
      ->type_name("NAME=FILE");
}

absl::StatusOr<std::vector<DescribedFile>> DescribeDataFiles(v1::Kernel* kernel, const std::string& folder,
                                                             const DataOptions& options) {
  DataDescriber describer(kernel, folder);
  ASSIGN_OR_RETURN(const std::vector<FileSetting> inputs, ReadFileSettings("--input", options.inputs));
  ASSIGN_OR_RETURN(const std::vector<FileSetting> expected, ReadFileSettings("--expected", options.expected));
  for (const FileSetting& setting : inputs) RETURN_IF_ERROR(describer.UseInput(setting));
  for (const FileSetting& setting : expected) RETURN_IF_ERROR(describer.UseExpected(setting));
  RETURN_IF_ERROR(describer.DropPrepareSteps());
  RETURN_IF_ERROR(describer.UsePaths());
  return describer.TakeFiles();
}

}  // namespace tunefarm::cli
