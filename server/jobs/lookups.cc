#include "server/jobs/lookups.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

struct Asked {
  std::shared_ptr<const KernelPlan> plan;
  SelectedDevice device;

  CatalogAnswer Answer(const Catalog& catalog, const ResolvedProblem& problem, tunefarm::v1::Match worst) const {
    CatalogQuery query;
    query.plan = plan.get();
    query.problem = &problem;
    query.device_class = &device.device_class;
    query.class_id = device.class_id;
    query.driver_version = device.driver_version;
    query.toolkit_version = device.toolkit_version;
    query.worst = worst;
    return catalog.Lookup(query);
  }
};

absl::StatusOr<Asked> Ask(const LookupContext& context, const std::string& kernel, const std::string& selector) {
  Asked asked;
  ASSIGN_OR_RETURN(asked.plan, context.kernels->Get(kernel));
  ASSIGN_OR_RETURN(asked.device, context.devices->Resolve(selector, asked.plan->language(), true));
  return asked;
}

absl::Status BadBatch(std::string_view what) { return WithReason(InvalidArgument("{}", what), "BATCH_INVALID"); }

// The number of problems in a batch, once its columns are known to be well formed.
absl::StatusOr<int> RowsOf(const tunefarm::v1::BatchLookupConfigsRequest& request) {
  int rows = -1;
  for (const auto& column : request.columns()) {
    if ((column.ints_size() > 0) == (column.string_indexes_size() > 0)) {
      return WithReason(InvalidArgument("column '{}' must fill exactly one of ints and string_indexes", column.dim()),
                        "BATCH_INVALID");
    }
    const int own = std::max(column.ints_size(), column.string_indexes_size());
    if (rows >= 0 && own != rows) {
      return WithReason(InvalidArgument("column '{}' has {} values, the one before it {}", column.dim(), own, rows),
                        "BATCH_INVALID");
    }
    rows = own;
    for (uint32_t index : column.string_indexes()) {
      if (index >= static_cast<uint32_t>(column.strings_size())) {
        return WithReason(InvalidArgument("column '{}' has the string index {}, but only {} strings", column.dim(),
                                          index, column.strings_size()),
                          "BATCH_INVALID");
      }
    }
  }
  if (rows > kBatchMax) {
    return WithReason(InvalidArgument("the batch has {} problems, at most {} are answered at once", rows, kBatchMax),
                      "BATCH_INVALID");
  }
  if (rows < 0) return BadBatch("the batch has no columns");
  return rows;
}

}  // namespace

absl::StatusOr<tunefarm::v1::LookupConfigResponse> LookupConfig(const LookupContext& context,
                                                                const tunefarm::v1::LookupConfigRequest& request) {
  ASSIGN_OR_RETURN(const Asked asked, Ask(context, request.kernel(), request.device_selector()));
  ASSIGN_OR_RETURN(const ResolvedProblem problem, asked.plan->ResolveProblem(request.problem()));
  const CatalogAnswer answer = asked.Answer(*context.catalog, problem, request.worst_match());
  tunefarm::v1::LookupConfigResponse response;
  response.set_match(answer.match);
  response.set_distance(answer.distance);
  response.set_catalog_revision(answer.revision);
  if (answer.best != nullptr) {
    *response.mutable_best() = *answer.best;
    if (answer.best->promoted_at_ms() > 0) {
      response.set_age_ms(std::max<int64_t>(0, context.clock->WallMs() - answer.best->promoted_at_ms()));
    }
  }
  return response;
}

absl::StatusOr<tunefarm::v1::BatchLookupConfigsResponse> LookupConfigs(
    const LookupContext& context, const tunefarm::v1::BatchLookupConfigsRequest& request) {
  ASSIGN_OR_RETURN(const Asked asked, Ask(context, request.kernel(), request.device_selector()));
  ASSIGN_OR_RETURN(const int rows, RowsOf(request));
  tunefarm::v1::BatchLookupConfigsResponse response;
  response.set_catalog_revision(context.catalog->revision());
  std::map<std::shared_ptr<const tunefarm::v1::BestConfig>, int> indexes;
  std::map<std::string, int> defaults;  // these answers are made one by one: told apart by their config
  for (int row = 0; row < rows; ++row) {
    tunefarm::v1::Problem asked_problem;
    *asked_problem.mutable_dims() = request.common_dims();
    for (const auto& column : request.columns()) {
      tunefarm::v1::Value value;
      if (column.ints_size() > 0) {
        value.set_int_value(column.ints(row));
      } else {
        value.set_string_value(column.strings(static_cast<int>(column.string_indexes(row))));
      }
      (*asked_problem.mutable_dims())[column.dim()] = std::move(value);
    }
    const auto problem = asked.plan->ResolveProblem(asked_problem);
    if (!problem.ok()) return Annotate(problem.status(), "problem {} of the batch", row);
    const CatalogAnswer answer = asked.Answer(*context.catalog, *problem, request.worst_match());
    int index = -1;
    if (answer.best != nullptr) {
      const int next = response.bests_size();
      if (answer.match == tunefarm::v1::MATCH_DEFAULT) {
        const std::string text = asked.plan->DefaultConfig(*problem).ToText();
        index = defaults.emplace(text, next).first->second;
      } else {
        index = indexes.emplace(answer.best, next).first->second;
      }
      if (index == next) *response.add_bests() = *answer.best;
    }
    response.add_best_indexes(index);
    response.add_matches(answer.match);
    response.add_distances(static_cast<float>(answer.distance));
  }
  return response;
}

}  // namespace tunefarm
