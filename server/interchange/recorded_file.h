// Results that other tools recorded: T4 files (TuningSchema's results 1.0.0) and Kernel Tuner's cache files, plain or
// gzip; and our own results written as T4.
//
// Recorded results are data of somebody else's machine: they may seed a search or be simulated on, and are never taken
// for measurements of ours.
//
// A row whose objective is no number above 0 is left out, counted and noted; a time that is none counts as unknown.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/expression/config.h"

namespace tunefarm::interchange {

// T4's words for what a config did.
enum class Invalidity { kCorrect, kConstraints, kCompile, kRuntime, kCorrectness, kTimeout };
// "correct", "constraints", ...
std::string_view InvalidityName(Invalidity invalidity);

// All times in milliseconds; absent where the file says nothing.
struct RecordedRow {
  Config config;
  Invalidity invalidity = Invalidity::kCorrect;
  std::optional<double> objective = std::nullopt;  // of correct rows, above 0; "time" in ms, others in the file's unit
  std::vector<double> runtimes_ms;
  std::optional<double> compile_ms = std::nullopt;
  std::optional<double> benchmark_ms = std::nullopt;
  std::optional<double> framework_ms = std::nullopt;
  std::optional<double> search_ms = std::nullopt;
  std::optional<double> validation_ms = std::nullopt;
  std::string timestamp;  // as in the file

  // What finding out took, of the parts that are known.
  double CostMs() const;
};

struct RecordedFile {
  enum class Format { kT4, kKernelTunerCache };
  Format format = Format::kT4;
  // What the file says of itself; T4 says none of these.
  std::string device_name, kernel_name, problem_size;
  std::string objective = "time";       // the name of what was optimised
  bool is_maximised = false;            // whether more of the objective is better
  std::vector<std::string> parameters;  // in the order of the first row
  std::vector<RecordedRow> rows;        // in the order of the file
  bool is_truncated = false;            // the file just ended, as that of a killed tuner; its whole rows are here
  std::vector<std::string> notes;       // what was accepted although it is not as it should be

  // What a search minimises: the objective, or its reciprocal where that is maximised. Absent for rows without one.
  std::optional<double> Minimised(const RecordedRow& row) const;
};

// Which number of a file is the objective. Empty: what the file says, else "time".
struct RecordedObjective {
  std::string name;
  // Absent: as Kernel Tuner knows it by the name (time is minimised, GFLOP/s is maximised).
  std::optional<bool> is_maximised = std::nullopt;
};
// "energy", "energy:min" or "energy:max"; InvalidArgument for an empty name.
absl::StatusOr<RecordedObjective> ParseRecordedObjective(std::string_view text);

inline constexpr uint64_t kRecordedBytesMax = uint64_t{512} << 20;
inline constexpr uint64_t kRecordedRowsMax = 1'000'000;

// Reads either format, told apart by its "results" or "cache". InvalidArgument "FILE:12:7: /results/3/...: message" for
// what is no such file, for an objective of unknown direction, and for a unit that is none of a time's or differs
// between rows; rows must all have the names of the first and no config twice. Known defects of published files are
// accepted: "miliseconds", `compilation` for `compilation_time`, an error's name or 1e20 as the value of a time, and
// NaN.
absl::StatusOr<RecordedFile> ReadRecordedFile(std::string bytes, std::string file_name,
                                              const RecordedObjective& objective = {});

// One result of ours on its way into a T4 file.
struct T4Row {
  std::string timestamp;  // "2026-11-21 09:54:05+00:00"
  Config config;
  Invalidity invalidity = Invalidity::kCorrect;
  double correctness = 1;  // 1: verified or not known to be wrong; else the share of elements that were right
  double compile_ms = 0;
  double validation_ms = 0;
  double framework_ms = 0;
  std::vector<double> runtimes_ms;
  // (name, value, unit); "time" in milliseconds first, where the row has one.
  struct Measurement {
    std::string name;
    double value = 0;
    std::string unit;
  };
  std::vector<Measurement> measurements;
};

// The text of a T4 results file: `parameters` gives the order of the names. What is no finite number is left out.
std::string WriteT4(const std::vector<std::string>& parameters, const std::vector<T4Row>& rows);

}  // namespace tunefarm::interchange
