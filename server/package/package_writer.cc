#include "server/package/package_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "client/launch/package_format.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/launch_sequence.h"
#include "server/definition/lookup_rules.h"
#include "server/definition/value_proto.h"
#include "server/package/package_tables.h"
#include "server/package/sequence_encoder.h"

namespace tunefarm {
namespace {

namespace pack = tunefarm::package;

template <typename Record>
pack::Section AppendSection(const std::vector<Record>& records, std::string* file) {
  file->resize((file->size() + 7) / 8 * 8, '\0');
  const pack::Section section{file->size(), records.size()};
  file->append(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record));
  return section;
}

// The oldest driver that loads what the toolchain made: the first of its major version, since later toolkits of it make
// binaries for all drivers of it. 0 where the name has no number.
uint32_t DriverVersionMin(std::string_view toolchain) {
  const size_t digit = toolchain.find_first_of("0123456789");
  if (digit == std::string_view::npos) return 0;
  return static_cast<uint32_t>(std::min(std::atoi(std::string(toolchain.substr(digit, 4)).c_str()), 1000)) * 1000;
}

// -march=native and its like.
bool IsForOneCpu(const v1::Kernel& definition) {
  const auto& options = definition.compile_options();
  return std::any_of(options.begin(), options.end(),
                     [](const std::string& option) { return option.find("=native") != std::string::npos; });
}

class PackageWriter {
 public:
  absl::Status Add(const PackagedKernel& kernel) {
    const v1::Kernel& definition = kernel.plan->kernel();
    pack::KernelRecord record = {};
    ASSIGN_OR_RETURN(record.name, tables_.AddString(definition.display_name()));
    ASSIGN_OR_RETURN(record.kernel_id, tables_.AddString(kernel.plan->kernel_id()));
    ASSIGN_OR_RETURN(record.program_digest, tables_.AddString(kernel.plan->program_digest()));
    record.language = definition.language() == v1::LANGUAGE_CUDA ? pack::kCuda : pack::kHost;
    record.lookup_distance_max = LookupDistanceMax(definition);
    const std::vector<v1::Dim> dims = PackagedDims(definition);
    RETURN_IF_ERROR(CheckPackageCount(dims.size(), pack::kDimsMax, "dims"));
    record.first_dim = static_cast<uint32_t>(dims_.size());
    record.dims = static_cast<uint32_t>(dims.size());
    for (const v1::Dim& dim : dims) RETURN_IF_ERROR(AddDim(dim));
    record.first_choice = static_cast<uint32_t>(choices_.size());
    record.choices = static_cast<uint32_t>(kernel.choices.size());
    for (const PackagedChoice& choice : kernel.choices) {
      if (const absl::Status added = AddChoice(*kernel.plan, dims, choice); !added.ok()) {
        return Annotate(added, "{} for {}", definition.display_name(), choice.dims.ToText());
      }
    }
    kernels_.push_back(record);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Finish(int64_t made_at_ms) const {
    RETURN_IF_ERROR(CheckPackageCount(choices_.size(), pack::kChoicesMax, "configs"));
    RETURN_IF_ERROR(CheckPackageCount(References(), pack::kReferencesMax, "buffers, steps and arguments"));
    pack::Header header = {};
    std::memcpy(header.magic, pack::kMagic, sizeof(pack::kMagic));
    header.version = pack::kVersion;
    header.header_bytes = sizeof(header);
    header.made_at_ms = made_at_ms;
    std::string file(sizeof(header), '\0');
    header.strings = AppendSection(tables_.strings(), &file);
    header.text = AppendSection(std::vector<char>(tables_.text().begin(), tables_.text().end()), &file);
    header.kernels = AppendSection(kernels_, &file);
    header.dims = AppendSection(dims_, &file);
    header.values = AppendSection(tables_.values(), &file);
    header.choices = AppendSection(choices_, &file);
    header.pairs = AppendSection(tables_.pairs.records(), &file);
    header.buffers = AppendSection(tables_.buffers.records(), &file);
    header.steps = AppendSection(tables_.steps.records(), &file);
    header.arguments = AppendSection(tables_.arguments.records(), &file);
    header.tensor_maps = AppendSection(tables_.tensor_maps.records(), &file);
    header.formulas = AppendSection(tables_.formulas(), &file);
    header.instructions = AppendSection(tables_.instructions(), &file);
    header.classes = AppendSection(tables_.classes.records(), &file);
    header.binaries = AppendSection(binaries_, &file);
    file.resize((file.size() + 63) / 64 * 64, '\0');
    header.data = {file.size(), data_.size()};
    file += data_;
    header.file_bytes = file.size();
    if (file.size() > pack::kFileBytesMax) {
      return InvalidArgument("a package of {} bytes is too large, at most {} are written; name fewer devices or dims",
                             file.size(), pack::kFileBytesMax);
    }
    std::memcpy(file.data(), &header, sizeof(header));
    header.checksum = Xxh3(std::string_view(file).substr(pack::kChecksumFrom));
    std::memcpy(file.data(), &header, sizeof(header));
    return file;
  }

 private:
  // As kReferencesMax counts them.
  size_t References() const {
    const auto& steps = tables_.steps.records();
    size_t count = 0;
    for (const pack::ChoiceRecord& choice : choices_) {
      count += choice.buffers + choice.constraints;
      for (uint32_t i = 0; i < choice.prepares; ++i) count += 1 + steps[choice.first_prepare + i].arguments;
      for (uint32_t i = 0; i < choice.steps; ++i) count += 1 + steps[choice.first_step + i].arguments;
    }
    return count;
  }

  // The kernel's dims that a launch or a look-up may name.
  static std::vector<v1::Dim> PackagedDims(const v1::Kernel& definition) {
    std::vector<v1::Dim> dims;
    for (const v1::Dim& dim : definition.dims()) {
      if (!dim.inputs_only()) dims.push_back(dim);
    }
    return dims;
  }

  absl::Status AddDim(const v1::Dim& dim) {
    pack::DimRecord record = {};
    ASSIGN_OR_RETURN(record.name, tables_.AddString(dim.name()));
    record.kind = static_cast<uint32_t>(definition::FromProto(dim.type()));
    record.bind = IsOpenDim(dim) ? pack::kRun : pack::kBaked;
    record.rule = static_cast<uint32_t>(dim.lookup());
    record.min = dim.min();
    record.max = dim.max();
    std::vector<Value> values;
    for (const v1::Value& proto : dim.values()) {
      ASSIGN_OR_RETURN(Value value, definition::FromProto(proto));
      values.push_back(std::move(value));
    }
    RETURN_IF_ERROR(CheckPackageCount(values.size(), pack::kDimValuesMax, "values of a dim"));
    record.values = static_cast<uint32_t>(values.size());
    ASSIGN_OR_RETURN(record.first_value, tables_.AddValues(values));
    record.default_value = pack::kNone;
    if (dim.has_default_value()) {
      ASSIGN_OR_RETURN(const Value value, definition::FromProto(dim.default_value()));
      ASSIGN_OR_RETURN(record.default_value, tables_.AddValues({value}));
    }
    const std::vector<Value> bounds(dim.bucket_bounds().begin(), dim.bucket_bounds().end());
    RETURN_IF_ERROR(CheckPackageCount(bounds.size(), pack::kDimValuesMax, "bounds of a dim"));
    record.bounds = static_cast<uint32_t>(bounds.size());
    ASSIGN_OR_RETURN(record.first_bound, tables_.AddValues(bounds));
    dims_.push_back(record);
    return absl::OkStatus();
  }

  absl::Status AddChoice(const KernelPlan& plan, const std::vector<v1::Dim>& dims, const PackagedChoice& choice) {
    const v1::LaunchSequence& sequence = choice.sequence;
    pack::ChoiceRecord record = {};
    record.kind = choice.is_default ? pack::kDefault : pack::kTuned;
    ASSIGN_OR_RETURN(record.device_class, Class(choice.device_class));
    std::vector<Value> dim_values;
    for (const v1::Dim& dim : dims) {
      const Value* const value = choice.dims.Find(dim.name());
      if (value == nullptr) return InvalidArgument("dim '{}' has no value", dim.name());
      dim_values.push_back(*value);
    }
    ASSIGN_OR_RETURN(record.first_dim_value, tables_.AddValues(dim_values));
    std::vector<pack::PairRecord> pairs;
    for (const auto& [name, value] : choice.config) {
      pack::PairRecord pair = {};
      ASSIGN_OR_RETURN(pair.name, tables_.AddString(name));
      ASSIGN_OR_RETURN(pair.value, tables_.AddValues({value}));
      pairs.push_back(pair);
    }
    RETURN_IF_ERROR(CheckPackageCount(pairs.size(), pack::kParametersMax, "parameters"));
    record.first_parameter = tables_.pairs.Add(pairs);
    record.parameters = static_cast<uint32_t>(pairs.size());
    ASSIGN_OR_RETURN(record.binary, Binary(plan, choice));
    RETURN_IF_ERROR(EncodeSequence(dims, sequence, &tables_, &record));
    if (sequence.prepare_size() > 0) {
      // What a step leaves is known to be alike only where binary and steps are.
      std::string layout = choice.binary;
      for (const v1::LaunchStep& step : sequence.prepare()) layout += step.SerializeAsString();
      for (const v1::LaunchBuffer& buffer : sequence.buffers()) layout += buffer.SerializeAsString();
      record.layout = std::max<uint64_t>(Xxh3(layout), 1);
    }
    if (!std::isfinite(choice.median_ns) || choice.median_ns < 0) {
      return InvalidArgument("a time of {} ns is none", choice.median_ns);
    }
    record.median_ns = choice.median_ns;
    choices_.push_back(record);
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> Class(const DeviceClass& device_class) {
    pack::ClassRecord record = {};
    ASSIGN_OR_RETURN(record.id, tables_.AddString(device_class.Id()));
    ASSIGN_OR_RETURN(record.name, tables_.AddString(device_class.display_name));
    const ValueMap constants = device_class.Constants();
    for (size_t i = 0; i < pack::kDeviceSlots; ++i) {
      const auto found = constants.find(pack::kDeviceSlotNames[i]);
      if (found == constants.end() || !found->second.is_int()) {
        return Internal("a device class has no {}", pack::kDeviceSlotNames[i]);
      }
      record.properties[i] = found->second.int_value();
    }
    return tables_.classes.Add({record});
  }

  absl::StatusOr<uint32_t> Binary(const KernelPlan& plan, const PackagedChoice& choice) {
    if (choice.binary.empty()) return pack::kNone;
    pack::BinaryRecord record = {};
    const bool is_cuda = plan.language() == v1::LANGUAGE_CUDA;
    record.kind = is_cuda ? pack::kCubin : pack::kSharedObject;
    ASSIGN_OR_RETURN(record.digest, tables_.AddString(Sha256(choice.binary).Hex()));
    ASSIGN_OR_RETURN(record.toolchain, tables_.AddString(choice.toolchain));
    record.bytes = choice.binary.size();
    const v1::Kernel& definition = plan.kernel();
    if (is_cuda) {
      record.compute_capability = static_cast<uint32_t>(choice.device_class.compute_capability);
      const v1::ResourceEstimate& resources = definition.resources();
      const bool is_specific = resources.architecture_specific() || resources.exact_compute_capability() != 0;
      record.is_specific = is_specific && record.compute_capability >= 90 ? 1 : 0;
      record.driver_version_min = DriverVersionMin(choice.toolchain);
    } else {
      record.is_specific = IsForOneCpu(definition) ? 1 : 0;
    }
    const auto known = std::find_if(binaries_.begin(), binaries_.end(), [&](const pack::BinaryRecord& other) {
      return other.digest == record.digest && other.toolchain == record.toolchain &&
             other.compute_capability == record.compute_capability && other.is_specific == record.is_specific;
    });
    if (known != binaries_.end()) return static_cast<uint32_t>(known - binaries_.begin());
    const auto [at, is_new] = data_offsets_.try_emplace(record.digest, (data_.size() + 63) / 64 * 64);
    if (is_new) {
      if (at->second + record.bytes > pack::kFileBytesMax) {
        return InvalidArgument("the binaries take more than {} bytes; name fewer devices or dims", pack::kFileBytesMax);
      }
      data_.resize(at->second, '\0');
      data_ += choice.binary;
    }
    record.offset = at->second;
    binaries_.push_back(record);
    return static_cast<uint32_t>(binaries_.size()) - 1;
  }

  PackageTables tables_;
  std::vector<pack::KernelRecord> kernels_;
  std::vector<pack::DimRecord> dims_;
  std::vector<pack::ChoiceRecord> choices_;
  std::vector<pack::BinaryRecord> binaries_;
  std::string data_;
  std::map<uint32_t, uint64_t> data_offsets_;  // by the digest's text
};

}  // namespace

absl::StatusOr<std::string> WritePackage(const std::vector<PackagedKernel>& kernels, int64_t made_at_ms) {
  PackageWriter writer;
  for (const PackagedKernel& kernel : kernels) RETURN_IF_ERROR(writer.Add(kernel));
  return writer.Finish(made_at_ms);
}

}  // namespace tunefarm
