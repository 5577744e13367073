#include "server/interchange/benchmark_csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/best_tables.h"
#include "server/interchange/exported_best.h"
#include "server/interchange/json_document.h"

namespace tunefarm::interchange {
namespace {

constexpr double kNsPerMs = 1e6;

struct Mode {
  std::string_view kernel, mode, first_load, second_load;
};
constexpr Mode kModes[] = {{"grouped_gemm_forward", "forward", "use_tma_load_w", "use_tma_load_x"},
                           {"grouped_gemm_dw", "dW", "use_tma_load_dy", "use_tma_load_x"},
                           {"grouped_gemm_dx", "dX", "use_tma_load_dy", "use_tma_load_w"}};

const Mode* ModeOf(std::string_view kernel) {
  for (const Mode& mode : kModes) {
    if (mode.kernel == kernel) return &mode;
  }
  return nullptr;
}

// Of the row's own names, which have a column.
std::set<std::string> NamesWithColumn(const Mode& mode) {
  return {"tokens",
          "dtype",
          "BLOCK_SIZE_M",
          "BLOCK_SIZE_N",
          "BLOCK_SIZE_K",
          "num_warps",
          "num_stages",
          "permute_x",
          "permute_y",
          "fuse_mul_post",
          "use_tma_store",
          std::string(mode.first_load),
          std::string(mode.second_load)};
}

const Value* Find(const BenchmarkRow& row, const std::string& name) {
  const Value* const value = row.config.Find(name);
  return value != nullptr ? value : row.dims.Find(name);
}

// As Python prints it.
std::string PythonText(const Value& value) {
  if (value.is_bool()) return value.bool_value() ? "True" : "False";
  return value.ToText();
}

std::string TorchType(const Value& dtype) {
  const std::string text = dtype.ToText();
  if (text == "bf16") return "torch.bfloat16";
  if (text == "f16") return "torch.float16";
  if (text == "fp8") return "torch.float8_e4m3fn";
  if (text == "f32") return "torch.float32";
  return text;
}

std::set<std::string> OwnNames(const Mode& mode, const std::vector<BenchmarkRow>& rows) {
  const std::set<std::string> known = NamesWithColumn(mode);
  std::set<std::string> names;
  for (const BenchmarkRow& row : rows) {
    for (const Config* const config : {&row.dims, &row.config}) {
      for (const auto& [name, value] : *config) {
        if (known.count(name) == 0) names.insert(name);
      }
    }
  }
  return names;
}

absl::StatusOr<std::string> LineOf(const Mode& mode, const BenchmarkRow& row) {
  const auto text = [&](const std::string& name) -> absl::StatusOr<std::string> {
    if (const Value* const value = Find(row, name); value != nullptr) return PythonText(*value);
    if (name == "fuse_mul_post") return std::string("False");
    return WithReason(InvalidArgument("a result has neither a dim nor a parameter '{}', which is a column", name),
                      kNotMappable);
  };
  ASSIGN_OR_RETURN(const std::string tokens, text("tokens"));
  const Value* const dtype = Find(row, "dtype");
  std::string line = fmt::format("{},{},{},False", mode.mode, tokens, dtype == nullptr ? "" : TorchType(*dtype));
  for (const char* const name : {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages"}) {
    ASSIGN_OR_RETURN(const std::string cell, text(name));
    line += "," + cell;
  }
  line += ",True";
  for (const std::string& name :
       {std::string("permute_x"), std::string("permute_y"), std::string("fuse_mul_post"), std::string("use_tma_store"),
        std::string(mode.first_load), std::string(mode.second_load)}) {
    ASSIGN_OR_RETURN(const std::string cell, text(name));
    line += "," + cell;
  }
  const bool has_baseline = row.baseline_ns > 0;
  return line + fmt::format(",{},{},{}", has_baseline ? NumberText(row.baseline_ns / kNsPerMs) : "",
                            NumberText(row.median_ns / kNsPerMs),
                            has_baseline ? NumberText(row.baseline_ns / row.median_ns) : "");
}

}  // namespace

absl::StatusOr<std::string> WriteBenchmarkCsv(std::string_view kernel, const std::vector<BenchmarkRow>& rows,
                                              bool with_own_columns) {
  const Mode* const mode = ModeOf(kernel);
  if (mode == nullptr) {
    return WithReason(InvalidArgument("'{}' has other columns than these, which are of grouped_gemm_forward, "
                                      "grouped_gemm_dx and grouped_gemm_dw",
                                      kernel),
                      kNotMappable);
  }
  std::vector<const BenchmarkRow*> sorted;
  for (const BenchmarkRow& row : rows) {
    if (row.median_ns > 0) sorted.push_back(&row);
  }
  const auto speedup = [](const BenchmarkRow& row) {
    return row.baseline_ns > 0 ? row.baseline_ns / row.median_ns : 0;
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const BenchmarkRow* a, const BenchmarkRow* b) {
    if (speedup(*a) != speedup(*b)) return speedup(*a) > speedup(*b);
    return speedup(*a) <= 0 && a->median_ns < b->median_ns;
  });
  const std::set<std::string> own = with_own_columns ? OwnNames(*mode, rows) : std::set<std::string>();
  std::string text = fmt::format(
      "mode,seqlen,dtype,autotune,BLOCK_SIZE_M,BLOCK_SIZE_N,BLOCK_SIZE_K,num_warps,num_stages,flatten,permute_x,"
      "permute_y,fuse_mul_post,use_tma_store,{},{},torch_time,triton_time,speedup",
      mode->first_load, mode->second_load);
  for (const std::string& name : own) text += "," + name;
  text += "\n";
  for (const BenchmarkRow* const row : sorted) {
    ASSIGN_OR_RETURN(const std::string line, LineOf(*mode, *row));
    text += line;
    for (const std::string& name : own) {
      const Value* const value = Find(*row, name);
      text += "," + (value == nullptr ? "" : CsvCell(PythonText(*value)));
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> LeftOutOfBenchmarkCsv(std::string_view kernel, const std::vector<BenchmarkRow>& rows) {
  std::vector<std::string> left_out;
  const Mode* const mode = ModeOf(kernel);
  if (mode == nullptr) return left_out;
  for (const std::string& name : OwnNames(*mode, rows)) {
    std::set<std::string> values;
    for (const BenchmarkRow& row : rows) {
      const Value* const value = Find(row, name);
      values.insert(value == nullptr ? "" : value->ToText());
    }
    if (values.size() > 1) left_out.push_back(name);
  }
  return left_out;
}

}  // namespace tunefarm::interchange
