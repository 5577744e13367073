#include "server/lookup/agreements.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/catalog/best_row.h"
#include "server/catalog/match_rules.h"
#include "server/farm/device_selector.h"
#include "server/store/best_store.h"

namespace tunefarm {
namespace {

using tunefarm::v1::AgreeConfigRequest;
using tunefarm::v1::AgreeConfigResponse;
using tunefarm::v1::LookupConfigRequest;
using tunefarm::v1::LookupConfigResponse;

constexpr size_t kRunIdBytesMax = 128;
// Of answers in memory. All are forgotten where it is exceeded.
constexpr size_t kKnownBytesMax = size_t{16} << 20;
// Of an answer besides its bytes.
constexpr size_t kKnownBytesEach = 512;
// Below the time after which a run that is in use could be removed as unused.
constexpr Duration kKnownFor = std::chrono::hours(1);
// The store is told of a use at most so often.
constexpr int64_t kUseMs = int64_t{60} * 60 * 1000;

absl::Status CheckRunId(const std::string& run_id) {
  const bool is_printable = std::all_of(run_id.begin(), run_id.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!run_id.empty() && run_id.size() <= kRunIdBytesMax && is_printable) return absl::OkStatus();
  return WithReason(InvalidArgument("a run_id has 1 to {} printable ASCII characters; this one has {} bytes{}",
                                    kRunIdBytesMax, run_id.size(), is_printable ? "" : ", not all of them printable"),
                    "RUN_INVALID");
}

// The same for equal messages.
std::string Serialized(const LookupConfigRequest& request) {
  std::string text;
  google::protobuf::io::StringOutputStream stream(&text);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  request.SerializeToCodedStream(&coded);
  coded.Trim();
  return text;
}

// Whether a selector stands for this class whenever it is asked: others stand for that of the first of several devices
// that is ready then, or here.
bool NamesClass(const std::string& selector, const SelectedDevice& device) {
  const bool is_label = selector.compare(0, kLabelPrefix.size(), kLabelPrefix) == 0;
  return selector == device.class_id || (selector == device.only && !is_label);
}

// Names a question of a run. Its words count, not the definition by which they are read now: that of a name may be
// another one when the next process asks.
absl::StatusOr<Digest> QuestionOf(const LookupContext& context, const AgreeConfigRequest& request) {
  LookupConfigRequest question = request.question();
  question.clear_with_device_class();
  question.mutable_problem()->clear_key();
  if (question.worst_match() == tunefarm::v1::MATCH_UNSPECIFIED) {
    question.set_worst_match(tunefarm::v1::MATCH_DEFAULT);
  }
  if (!question.device_selector().empty()) {
    ASSIGN_OR_RETURN(
        const LookupTarget target,
        LookupTarget::Resolve(context, question.kernel(), question.program_digest(), question.device_selector()));
    if (NamesClass(question.device_selector(), target.device)) question.set_device_selector(target.device.class_id);
  }
  Sha256Stream stream;
  stream.Update(std::to_string(request.run_id().size()) + ":" + request.run_id());
  stream.Update(Serialized(question));
  return stream.Finish();
}

// The best that was filed under the key at that revision of the catalog.
absl::StatusOr<std::optional<tunefarm::v1::BestConfig>> BestAt(BestStore* store, const BestKey& key, int64_t revision) {
  BestChangeQuery query;
  query.key = key;
  query.page.page_size = BestStore::kBestChangesKept;
  ASSIGN_OR_RETURN(const Page<BestChangeRow> history, store->ListBestChanges(query));
  for (const BestChangeRow& change : history.rows) {
    if (change.revision > revision) continue;
    if (change.kind == BestChangeKind::kRetired) return std::nullopt;
    return BestOfRow(change.best);
  }
  if (history.rows.size() < static_cast<size_t>(BestStore::kBestChangesKept)) return std::nullopt;
  return WithReason(
      FailedPrecondition("the best config for {} on {} has changed {} times since the run began, and what "
                         "it was then is not known any more; begin a run with another id",
                         key.problem_key, key.class_id, history.rows.size()),
      "RUN_TOO_OLD");
}

}  // namespace

absl::StatusOr<LookupConfigResponse> Agreements::FirstAnswer(const LookupConfigRequest& question,
                                                             int64_t run_revision) {
  LookupConfigRequest request = question;
  request.set_with_device_class(true);
  ASSIGN_OR_RETURN(const LookupAnswer answer, LookupConfig(context_, request));
  LookupConfigResponse response = answer.response();
  // By the definition that the response names: the request's name may stand for another one by now.
  ASSIGN_OR_RETURN(
      const LookupTarget target,
      LookupTarget::Resolve(context_, response.kernel(), request.program_digest(), request.device_selector()));
  ASSIGN_OR_RETURN(const ResolvedProblem problem, target.ResolveProblem(request.problem()));
  const CatalogQuery query = target.Query(problem, request.worst_match());
  // Also where the catalog in memory has the run's revision: while changes come in, not all of it is of that revision.
  ASSIGN_OR_RETURN(std::optional<tunefarm::v1::BestConfig> best,
                   BestAt(store_->bests(), {std::string(query.program_digest()), problem.key, target.device.class_id},
                          run_revision));
  if (!best.has_value()) return response;
  const auto match = IsStale(query, *best) ? tunefarm::v1::MATCH_STALE : tunefarm::v1::MATCH_EXACT;
  const bool is_wanted = request.worst_match() == tunefarm::v1::MATCH_UNSPECIFIED || match <= request.worst_match();
  response.set_match(is_wanted ? match : tunefarm::v1::MATCH_NOT_FOUND);
  response.set_distance(0);
  response.clear_best();
  if (is_wanted) *response.mutable_best() = *std::move(best);
  return response;
}

void Agreements::Remember(const Digest& question, const Known& known) {
  const size_t bytes = known.agreement.answer->answer.size() + kKnownBytesEach;
  MutexLock lock(&mutex_);
  if (known_bytes_ + bytes > kKnownBytesMax) {
    known_.clear();
    known_bytes_ = 0;
  }
  // What takes another's place is as long, or counts twice until all are forgotten.
  known_bytes_ += bytes;
  known_[question] = known;
}

absl::StatusOr<Agreement> Agreements::FindStored(const std::string& owner, const std::string& run_id,
                                                 const Digest& question) {
  ASSIGN_OR_RETURN(const std::optional<Agreement> found, store_->lookups()->FindAgreement(run_id, question.view()));
  const int64_t now_ms = context_.clock->WallMs();
  if (found.has_value() && found->run.last_used_at_ms > now_ms - kUseMs) return *found;
  Agreement agreement;
  ASSIGN_OR_RETURN(agreement.run,
                   store_->lookups()->BeginRun({run_id, owner, context_.catalog->revision(), now_ms, now_ms}, limits_));
  // Another one of this name, begun since, has nothing of it.
  if (found.has_value() && found->run.begun_at_ms == agreement.run.begun_at_ms) agreement.answer = found->answer;
  return agreement;
}

absl::StatusOr<Agreement> Agreements::Find(const std::string& owner, const AgreeConfigRequest& request,
                                           const Digest& question) {
  const int64_t replacements = store_->Replacements();
  const MonotonicTime now = context_.clock->Now();
  {
    MutexLock lock(&mutex_);
    const auto known = known_.find(question);
    if (known != known_.end() && known->second.replacements == replacements &&
        now - known->second.read_at < kKnownFor) {
      return known->second.agreement;
    }
  }
  ASSIGN_OR_RETURN(Agreement agreement, FindStored(owner, request.run_id(), question));
  if (!agreement.answer.has_value()) {
    ASSIGN_OR_RETURN(const LookupConfigResponse first, FirstAnswer(request.question(), agreement.run.catalog_revision));
    ASSIGN_OR_RETURN(agreement.answer,
                     store_->lookups()->AgreeOn(request.run_id(), question.view(),
                                                {first.SerializeAsString(), context_.clock->WallMs()}, limits_));
  }
  Remember(question, {agreement, now, replacements});
  return agreement;
}

absl::StatusOr<AgreeConfigResponse> Agreements::Agree(const std::string& owner, const AgreeConfigRequest& request) {
  RETURN_IF_ERROR(CheckRunId(request.run_id()));
  AgreeConfigResponse response;
  Agreement agreement;
  if (!request.has_question()) {
    ASSIGN_OR_RETURN(agreement, FindStored(owner, request.run_id(), Digest()));
  } else {
    ASSIGN_OR_RETURN(const Digest question, QuestionOf(context_, request));
    ASSIGN_OR_RETURN(agreement, Find(owner, request, question));
    LookupConfigResponse* const answer = response.mutable_answer();
    if (!answer->ParseFromString(agreement.answer->answer)) {
      return DataLoss("the stored answer to a question of run {} cannot be read", request.run_id());
    }
    if (!request.question().with_device_class()) answer->clear_device_class();
    if (answer->best().promoted_at_ms() > 0) {
      answer->set_age_ms(std::max<int64_t>(0, context_.clock->WallMs() - answer->best().promoted_at_ms()));
    }
    response.set_agreed_at_ms(agreement.answer->agreed_at_ms);
  }
  response.set_run_begun_at_ms(agreement.run.begun_at_ms);
  response.set_run_revision(agreement.run.catalog_revision);
  return response;
}

}  // namespace tunefarm
