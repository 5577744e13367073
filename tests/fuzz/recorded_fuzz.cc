// Fuzz target of the readers of T4 and of Kernel Tuner's cache files, plain and gzip: whatever the bytes, reading them
// ends with rows or an error, the error has a place and a reason, and rows written as T4 are read as the same rows.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "server/base/status.h"
#include "server/interchange/recorded_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tunefarm;               // NOLINT(google-build-using-namespace)
  using namespace tunefarm::interchange;  // NOLINT(google-build-using-namespace)
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };
  const auto file = ReadRecordedFile(std::string(reinterpret_cast<const char*>(data), size), "f");
  if (!file.ok()) {
    require(absl::IsInvalidArgument(file.status()));
    require(MessageOf(file.status()).substr(0, 2) == "f:");
    require(!ReasonOf(file.status()).empty());
    return 0;
  }
  require(!file->rows.empty());
  std::vector<T4Row> rows;
  for (const RecordedRow& row : file->rows) {
    T4Row written;
    written.config = row.config;
    written.invalidity = row.invalidity;
    written.runtimes_ms = row.runtimes_ms;
    require(row.CostMs() >= 0 || !row.runtimes_ms.empty());
    if (row.objective.has_value()) written.measurements.push_back({"time", *row.objective, "ms"});
    if (row.invalidity == Invalidity::kCorrect) require(row.objective.has_value());
    rows.push_back(std::move(written));
  }
  const auto again = ReadRecordedFile(WriteT4(file->parameters, rows), "f");
  require(again.ok() && again->rows.size() == file->rows.size() && again->parameters == file->parameters);
  for (size_t i = 0; i < rows.size(); ++i) {
    require(again->rows[i].config == file->rows[i].config && again->rows[i].invalidity == file->rows[i].invalidity);
    require(again->rows[i].objective == file->rows[i].objective);
  }
  return 0;
}
