#include "server/lookup/batch_lookup.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/lookup/batch_keys.h"
#include "server/records/resource_names.h"

namespace tunefarm {
namespace {

using BestPointer = std::shared_ptr<const tunefarm::v1::BestConfig>;

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
      return WithReason(
          InvalidArgument("column '{}' has {}, the one before it {}", column.dim(), FormatCount(own, "value"), rows),
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

tunefarm::v1::Problem ProblemOfRow(const tunefarm::v1::BatchLookupConfigsRequest& request, int row) {
  tunefarm::v1::Problem problem;
  *problem.mutable_dims() = request.common_dims();
  for (const auto& column : request.columns()) {
    tunefarm::v1::Value value;
    if (column.ints_size() > 0) {
      value.set_int_value(column.ints(row));
    } else {
      value.set_string_value(column.strings(static_cast<int>(column.string_indexes(row))));
    }
    (*problem.mutable_dims())[column.dim()] = std::move(value);
  }
  return problem;
}

// Writes the rows of a response, in which equal answers are there once.
class Answers {
 public:
  Answers(bool configs_only, int rows, tunefarm::v1::BatchLookupConfigsResponse* response)
      : configs_only_(configs_only), response_(response) {
    response->mutable_best_indexes()->Reserve(rows);
    response->mutable_matches()->Reserve(rows);
    response->mutable_distances()->Reserve(rows);
    if (configs_only) response->mutable_medians_ns()->Reserve(rows);
  }

  // Bests are told apart by their configs where only configs are wanted, and where they are made for each question
  // (DEFAULT); others by where they lie.
  bool TellsByConfig(tunefarm::v1::Match match) const { return configs_only_ || match == tunefarm::v1::MATCH_DEFAULT; }

  // `config`: its canonical text; not looked at unless TellsByConfig.
  void Add(const BestPointer& best, std::string_view config, tunefarm::v1::Match match, double distance,
           double median_ns) {
    const tunefarm::v1::BestConfig* const address = best.get();
    const std::string_view identity =
        TellsByConfig(match) ? config : std::string_view(reinterpret_cast<const char*>(&address), sizeof(address));
    auto found = indexes_.find(identity);
    if (found == indexes_.end()) {
      known_.push_back({std::string(identity), best});
      found = indexes_.emplace(known_.back().identity, static_cast<int>(known_.size()) - 1).first;
      if (configs_only_) {
        *response_->add_configs() = best->config();
      } else {
        *response_->add_bests() = *best;
      }
    }
    AddRow(found->second, match, distance, median_ns);
  }

  void AddNone() { AddRow(-1, tunefarm::v1::MATCH_NOT_FOUND, 0, 0); }

 private:
  struct Known {
    std::string identity;
    BestPointer best;  // so that no other one comes to lie where it lies
  };

  void AddRow(int index, tunefarm::v1::Match match, double distance, double median_ns) {
    response_->add_best_indexes(index);
    response_->add_matches(match);
    response_->add_distances(static_cast<float>(distance));
    if (configs_only_) response_->add_medians_ns(median_ns);
  }

  const bool configs_only_;
  tunefarm::v1::BatchLookupConfigsResponse* const response_;
  std::deque<Known> known_;  // in the order of the response; stays where it is while it grows
  std::unordered_map<std::string_view, int> indexes_;
};

// The rows that have no exact answer.
class MissedRows {
 public:
  void Add(int row, std::string_view key, tunefarm::v1::Match match, double distance) {
    rows_.push_back({row, keys_.size(), key.size()});
    keys_ += key;
    questions_.push_back({{}, match, distance});
  }

  // `resolve`: the problem of a row.
  template <typename Resolve>
  void CountIn(MissTable* table, const MissSource& source, const Resolve& resolve) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      questions_[i].problem_key = std::string_view(keys_).substr(rows_[i].key_begin, rows_[i].key_size);
    }
    table->Count(source, questions_, [&](size_t i) -> std::optional<tunefarm::v1::Problem> {
      const absl::StatusOr<ResolvedProblem> problem = resolve(rows_[i].row);
      if (!problem.ok()) return std::nullopt;  // tuned by an earlier definition that allowed it
      return problem->ToProto();
    });
  }

 private:
  struct Row {
    int row;
    size_t key_begin, key_size;
  };

  std::vector<Row> rows_;
  std::vector<MissQuestion> questions_;
  std::string keys_;  // one after another
};

// IsStale of one best after the other. Most were measured with the same driver, toolkit and headers as the one before,
// and a look at headers costs more than the rest of a row.
class StaleBests {
 public:
  // The query outlives it.
  explicit StaleBests(const CatalogQuery* query) : query_(*query) {}

  bool Has(const CatalogEntry& entry) {
    if (entry.conditions != last_conditions_) {
      is_last_stale_ = IsStale(query_, *entry.best);
      last_conditions_ = entry.conditions;
    }
    return is_last_stale_;
  }

 private:
  const CatalogQuery& query_;
  std::optional<uint64_t> last_conditions_;
  bool is_last_stale_ = false;
};

// A problem that has a best of its own need not be resolved: it was when it was tuned. False: it has none, or it is
// stale and that will not do.
bool AnswerExactly(const Catalog::View& catalog, const CatalogQuery& query, int row, std::string_view key,
                   StaleBests* stale, Answers* answers, MissedRows* missed) {
  const CatalogEntry* const entry = catalog.Find(key);
  if (entry == nullptr) return false;
  const bool is_stale = stale->Has(*entry);
  if (is_stale && query.worst == tunefarm::v1::MATCH_EXACT) return false;
  answers->Add(entry->best, entry->config, is_stale ? tunefarm::v1::MATCH_STALE : tunefarm::v1::MATCH_EXACT, 0,
               entry->median_ns);
  if (is_stale) missed->Add(row, key, tunefarm::v1::MATCH_STALE, 0);
  return true;
}

void AnswerResolved(const Catalog& catalog, const CatalogQuery& query, int row, Answers* answers, MissedRows* missed) {
  const CatalogAnswer answer = catalog.Lookup(query);
  if (answer.match != tunefarm::v1::MATCH_EXACT) missed->Add(row, query.problem->key, answer.match, answer.distance);
  if (answer.best == nullptr) {
    answers->AddNone();
    return;
  }
  std::string text;
  if (answers->TellsByConfig(answer.match)) {
    const auto config = query.plan->ParseConfig(answer.best->config());
    text = config.ok() ? config->ToText() : answer.best->config().SerializeAsString();
  }
  answers->Add(answer.best, text, answer.match, answer.distance, answer.best->measurement().median_ns());
}

}  // namespace

absl::StatusOr<tunefarm::v1::BatchLookupConfigsResponse> LookupConfigs(
    const LookupContext& context, const tunefarm::v1::BatchLookupConfigsRequest& request) {
  ASSIGN_OR_RETURN(const LookupTarget target, LookupTarget::Resolve(context, request.kernel(), request.program_digest(),
                                                                    request.device_selector()));
  ASSIGN_OR_RETURN(const int rows, RowsOf(request));
  tunefarm::v1::BatchLookupConfigsResponse response;
  response.set_kernel(KernelName(target.plan->kernel_id()));
  response.set_program_digest(target.plan->program_digest());
  const auto resolve = [&](int row) -> absl::StatusOr<ResolvedProblem> {
    auto problem = target.ResolveProblem(ProblemOfRow(request, row));
    if (!problem.ok()) return Annotate(problem.status(), "problem {} of the batch", row);
    return problem;
  };
  ASSIGN_OR_RETURN(const ResolvedProblem first, resolve(0));
  const CatalogQuery exact = target.Query(first, request.worst_match());
  const Catalog::View catalog = context.catalog->Read(exact.program_digest(), exact.class_id);
  response.set_catalog_revision(catalog.revision());
  StaleBests stale(&exact);
  BatchKeys keys(request, first);
  Answers answers(request.configs_only(), rows, &response);
  MissedRows missed;
  for (int row = 0; row < rows; ++row) {
    if (keys.works() && AnswerExactly(catalog, exact, row, keys.Key(row), &stale, &answers, &missed)) continue;
    ASSIGN_OR_RETURN(const ResolvedProblem problem, resolve(row));
    AnswerResolved(*context.catalog, target.Query(problem, request.worst_match()), row, &answers, &missed);
  }
  missed.CountIn(context.misses, target.Source(context.clock->WallMs()), resolve);
  return response;
}

}  // namespace tunefarm
