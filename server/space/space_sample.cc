#include "server/space/space_sample.h"

#include <algorithm>
#include <optional>

#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/space/parallel.h"

namespace tunefarm::space_internal {

namespace {

// A group may take this many visited values to be counted or listed; beyond, the other ways are tried.
constexpr uint64_t kCountNodesMax = 100'000'000;
// Up to so many solutions, sampling picks from their list.
constexpr uint64_t kListMax = 1'000'000;
constexpr uint64_t kTrialSeed = 0x7472'6961'6c73'6565;
constexpr int kTrials = 4096;
constexpr int kTrialsValidMin = 40;              // about 1 %: rejection then costs about 100 points a sample
constexpr double kCountFirstCartesianMax = 1e6;  // below, counting is a matter of milliseconds
constexpr uint64_t kRejectionTriesMax = 20'000'000;
// The part of a limited time that a group may take to be counted, and to be listed; and to have its prefixes counted:
// so much, and so much of what is left.
constexpr Duration kCountTime = std::chrono::seconds(5);
constexpr Duration kPrefixesTime = std::chrono::seconds(10);
constexpr int kPartOfLeft = 4;

// A budget within a part of the limit, which may be null; `part` holds it.
SearchBudget PartOf(const WorkLimit* limit, Duration time, uint64_t nodes, std::optional<WorkLimit>* part) {
  if (limit == nullptr) return {nodes, nullptr};
  part->emplace(limit, std::min(time, limit->Left() / kPartOfLeft));
  return {nodes, &**part};
}

}  // namespace

SpaceSampler::SpaceSampler(const SpaceSearch& search) : search_(search), rules_(search.rules()) {
  if (rules_.is_rejected_by_constant_rule()) {
    status_ = NotFound("the space is empty: a rule without parameters rejects everything");
  } else if (search.is_empty()) {
    status_ = NotFound("the space is empty");
  } else {
    status_ = rules_.constant_fault();
    if (!CountParts()) SearchParts();
  }
}

void SpaceSampler::Fail(const absl::Status& status) {
  // That there is no point to draw is said before that a rule cannot be evaluated at one.
  if (status_.ok() || absl::IsNotFound(status)) status_ = status;
}

bool SpaceSampler::CountParts() {
  for (const auto& program : search_.programs()) {
    Part part;
    part.program = program;
    SolutionCount total = 0;
    absl::Status fault;
    auto counts = std::make_unique<CountedSolutions>(*program);
    const uint64_t nodes_max = std::min(search_.options().nodes_max, kCountNodesMax);
    std::optional<WorkLimit> count_part, list_part;
    const WalkEnd counted = counts->CountAll(PartOf(limit(), kCountTime, nodes_max, &count_part), &fault);
    const bool is_counted = counted == WalkEnd::kDone && counts->total() < kCountMax;
    // A short list is drawn from faster than counts are followed; and what is too much to remember may still be short
    // enough to list.
    const bool is_short = !is_counted || counts->total() <= kListMax;
    WalkEnd listed = WalkEnd::kStopped;
    if (counted != WalkEnd::kFault && is_short && program->free_from() > 0 && search_.layout().total_bits <= 64) {
      part.memory = std::make_unique<MemoryUse>(limit() == nullptr ? nullptr : limit()->memory());
      // The key, among those of its part and while it is sorted.
      const ListOptions options = {kListMax, ThreadCount(search_.options().threads), part.memory.get(),
                                   3 * sizeof(uint64_t)};
      SearchBudget budget = PartOf(limit(), kCountTime, nodes_max, &list_part);
      listed = ListKeys(*program, search_.layout(), options, &budget, &part.keys, &fault);
      part.memory->AtMost(part.keys.size() * sizeof(uint64_t));
    }
    if (limit() != nullptr && !limit()->GoOn()) return true;
    if (counted == WalkEnd::kFault || listed == WalkEnd::kFault) {
      Fail(fault);
      continue;
    }
    if (listed == WalkEnd::kDone) {
      part.way = Part::Way::kList;
      total = part.keys.size();
    } else if (is_counted) {
      part.keys.clear();
      part.way = Part::Way::kCounts;
      total = counts->total();
      part.counts = std::move(counts);
    } else {
      parts_.clear();
      return false;
    }
    if (total == 0) Fail(NotFound("the space is empty"));
    parts_.push_back(std::move(part));
  }
  return true;
}

void SpaceSampler::SearchParts() {
  const SpaceSearch::Programs programs = search_.JudgedPrograms();
  for (const auto& program : programs) {
    if (limit() != nullptr && !limit()->GoOn()) return;
    Part part;
    part.program = program;
    if (program->cartesian() == 0) Fail(NotFound("the space is empty"));
    if (program->cartesian() > 0 && program->free_from() > 0 && !IsOftenValid(*program)) {
      absl::Status fault;
      auto counts = std::make_unique<CountedSolutions>(*program);
      std::optional<WorkLimit> prefixes_part;
      const WalkEnd end =
          counts->CountPrefixes(PartOf(limit(), kPrefixesTime, search_.options().nodes_max, &prefixes_part), &fault);
      if (end == WalkEnd::kFault) Fail(fault);
      if (end == WalkEnd::kDone && counts->total() == 0) Fail(NotFound("the space is empty"));
      // Where counting did not end, or the count does not fit, rejection remains.
      if (end == WalkEnd::kDone && counts->total() < kCountMax) {
        part.way = Part::Way::kPrefixes;
        part.counts = std::move(counts);
      }
    }
    parts_.push_back(std::move(part));
  }
}

bool SpaceSampler::IsOftenValid(const SearchProgram& program) const {
  if (program.cartesian() <= kCountFirstCartesianMax) return false;
  PhiloxStream random(kTrialSeed);
  Binding binding(rules_.parameters().size());
  std::vector<uint16_t> row(rules_.parameters().size(), 0);
  absl::Status fault;
  int valid = 0;
  for (int i = 0; i < kTrials; ++i) valid += DrawPoint(program, random, &binding, &row, &fault) == Verdict::kPass;
  return valid >= kTrialsValidMin;
}

Verdict SpaceSampler::DrawPoint(const SearchProgram& program, PhiloxStream& random, Binding* binding,
                                std::vector<uint16_t>* row, absl::Status* fault) const {
  *fault = absl::OkStatus();
  for (size_t depth = 0; depth < program.size(); ++depth) {
    const std::vector<uint16_t>& domain = program.DomainAt(depth);
    const uint16_t value = domain[random.UniformInt(domain.size())];
    rules_.Bind(program.parameters()[depth], value, binding);
    (*row)[static_cast<size_t>(program.parameters()[depth])] = value;
  }
  for (size_t depth = 0; depth < program.free_from(); ++depth) {
    for (const int rule : program.At(depth).judged) {
      const Verdict verdict = rules_.Judge(rule, *binding);
      if (verdict == Verdict::kReject) return Verdict::kReject;
      if (verdict == Verdict::kFault && fault->ok()) *fault = rules_.FaultStatus(rule, *binding);
    }
  }
  return fault->ok() ? Verdict::kPass : Verdict::kFault;
}

absl::Status SpaceSampler::DrawByRejection(const SearchProgram& program, PhiloxStream& random,
                                           std::vector<uint16_t>* row) const {
  Binding binding(rules_.parameters().size());
  absl::Status fault;
  WorkPace pace(limit());
  uint64_t work = program.size();
  for (size_t depth = 0; depth < program.size(); ++depth) {
    work += program.At(depth).judged.size() * SpaceRules::kJudgeWork;
  }
  for (uint64_t tries = 0; tries < kRejectionTriesMax; ++tries) {
    if (!pace.Spend(work)) return search_.LimitStatus();
    const Verdict verdict = DrawPoint(program, random, &binding, row, &fault);
    if (verdict == Verdict::kPass) return absl::OkStatus();
    if (verdict == Verdict::kFault) return fault;
  }
  return ResourceExhausted(
      "none of {} random points satisfies the rules and the space is too large to count; add constraints over fewer "
      "parameters or list fewer values",
      FormatCount(static_cast<int64_t>(kRejectionTriesMax)));
}

absl::StatusOr<std::vector<uint16_t>> SpaceSampler::Draw(PhiloxStream& random) const {
  RETURN_IF_ERROR(search_.LimitStatus());
  RETURN_IF_ERROR(status_);
  std::vector<uint16_t> row(rules_.parameters().size(), 0);
  for (const Part& part : parts_) {
    switch (part.way) {
      case Part::Way::kList: {
        const uint64_t key = part.keys[random.UniformInt(part.keys.size())];
        for (const int parameter : part.program->parameters()) {
          const size_t p = static_cast<size_t>(parameter);
          row[p] = search_.layout().IndexIn(key, p);
        }
        break;
      }
      case Part::Way::kCounts:
      case Part::Way::kPrefixes:
        if (!part.counts->Draw(random, limit(), &row)) return search_.LimitStatus();
        break;
      case Part::Way::kRejection:
        RETURN_IF_ERROR(DrawByRejection(*part.program, random, &row));
        break;
    }
  }
  return row;
}

}  // namespace tunefarm::space_internal
