#include "client/cpp/snapshot/snapshot_writer.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "client/cpp/snapshot/snapshot_format.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::snapshot {
namespace {

template <typename Record>
Section AppendSection(const std::vector<Record>& records, std::string* file) {
  file->resize((file->size() + 7) / 8 * 8, '\0');
  const Section section{file->size(), records.size()};
  file->append(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record));
  return section;
}

class Writer {
 public:
  absl::Status Add(const Kernel& kernel) {
    KernelRecord record = {};
    ASSIGN_OR_RETURN(record.name, String(kernel.name));
    ASSIGN_OR_RETURN(record.kernel_id, String(kernel.kernel_id));
    ASSIGN_OR_RETURN(record.program_digest, String(kernel.program_digest));
    RETURN_IF_ERROR(Pairs(kernel.dims, kDimsMax, "dims", &record.first_dim, &record.dims));
    record.inputs_only = kernel.inputs_only;
    record.first_best = static_cast<uint32_t>(bests_.size());
    record.bests = static_cast<uint32_t>(kernel.bests.size());
    for (const Best& best : kernel.bests) {
      if (const absl::Status added = AddBest(best); !added.ok()) {
        return Annotate(added, "the best of {} for {}", kernel.name, best.problem);
      }
    }
    kernels_.push_back(record);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Finish(const Contents& contents) const {
    Header header = {};
    std::memcpy(header.magic, kMagic, sizeof(kMagic));
    header.version = kVersion;
    header.header_bytes = sizeof(Header);
    header.revision = contents.revision;
    header.made_at_ms = contents.made_at_ms;
    std::string file(sizeof(Header), '\0');
    header.strings = AppendSection(strings_, &file);
    header.text = AppendSection(std::vector<char>(text_.begin(), text_.end()), &file);
    header.kernels = AppendSection(kernels_, &file);
    header.pairs = AppendSection(pairs_, &file);
    header.bests = AppendSection(bests_, &file);
    header.file_bytes = file.size();
    if (file.size() > kFileBytesMax || pairs_.size() > std::numeric_limits<uint32_t>::max()) {
      return InvalidArgument("a snapshot of {} bytes is too large, at most {} are written; name fewer kernels",
                             file.size(), kFileBytesMax);
    }
    std::memcpy(file.data(), &header, sizeof(header));
    header.checksum = Xxh3(std::string_view(file).substr(kChecksumFrom));
    std::memcpy(file.data(), &header, sizeof(header));
    return file;
  }

 private:
  absl::Status AddBest(const Best& best) {
    BestRecord record = {};
    record.kernel = static_cast<uint32_t>(kernels_.size());
    ASSIGN_OR_RETURN(record.class_id, String(best.class_id));
    ASSIGN_OR_RETURN(record.class_name, String(best.class_name));
    ASSIGN_OR_RETURN(record.problem, String(best.problem));
    ASSIGN_OR_RETURN(record.job, String(best.job));
    ASSIGN_OR_RETURN(record.driver, String(best.driver));
    ASSIGN_OR_RETURN(record.toolkit, String(best.toolkit));
    RETURN_IF_ERROR(Pairs(best.dims, kDimsMax, "dims", &record.first_dim, &record.dims));
    RETURN_IF_ERROR(Pairs(best.config, kParametersMax, "parameters", &record.first_value, &record.values));
    record.flags = best.pinned ? 1 : 0;
    for (const double time : {best.median_ns, best.ci_low_ns, best.ci_high_ns, best.baseline_ns}) {
      if (!std::isfinite(time) || time < 0) return InvalidArgument("a time of {} ns is none", time);
    }
    record.median_ns = best.median_ns;
    record.ci_low_ns = best.ci_low_ns;
    record.ci_high_ns = best.ci_high_ns;
    record.baseline_ns = best.baseline_ns;
    record.revision = best.revision;
    record.promoted_at_ms = best.promoted_at_ms;
    bests_.push_back(record);
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> String(const std::string& text) {
    if (text.size() > kStringBytesMax) {
      return InvalidArgument("a text of {} bytes is too long, at most {} are kept", text.size(), kStringBytesMax);
    }
    const auto [found, is_new] = numbers_.try_emplace(text, static_cast<uint32_t>(strings_.size()));
    if (is_new) {
      if (text_.size() > std::numeric_limits<uint32_t>::max() - text.size()) {
        return InvalidArgument("the texts take more than 4 GiB; name fewer kernels");
      }
      strings_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size())});
      text_ += text;
    }
    return found->second;
  }

  absl::Status Pairs(const NamedScalars& values, uint32_t most, std::string_view what, uint32_t* first,
                     uint32_t* count) {
    if (values.size() > most)
      return InvalidArgument("{} {} are too many, at most {} are kept", values.size(), what, most);
    *first = static_cast<uint32_t>(pairs_.size());
    *count = static_cast<uint32_t>(values.size());
    for (const auto& [name, value] : values) {
      PairRecord record = {};
      ASSIGN_OR_RETURN(record.name, String(name));
      if (const auto* const integer = std::get_if<int64_t>(&value)) {
        record.kind = kInt;
        record.payload = static_cast<uint64_t>(*integer);
      } else if (const auto* const number = std::get_if<double>(&value)) {
        if (!std::isfinite(*number)) return InvalidArgument("'{}' is no finite number", name);
        record.kind = kDouble;
        record.payload = std::bit_cast<uint64_t>(*number);
      } else if (const auto* const truth = std::get_if<bool>(&value)) {
        record.kind = kBool;
        record.payload = *truth ? 1 : 0;
      } else if (const auto* const text = std::get_if<std::string>(&value)) {
        record.kind = kString;
        ASSIGN_OR_RETURN(record.payload, String(*text));
      }
      pairs_.push_back(record);
    }
    return absl::OkStatus();
  }

  std::vector<StringRecord> strings_;
  std::string text_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<KernelRecord> kernels_;
  std::vector<PairRecord> pairs_;
  std::vector<BestRecord> bests_;
};

}  // namespace

absl::StatusOr<std::string> Encode(const Contents& contents) {
  Writer writer;
  for (const Kernel& kernel : contents.kernels) RETURN_IF_ERROR(writer.Add(kernel));
  return writer.Finish(contents);
}

}  // namespace tunefarm::snapshot
