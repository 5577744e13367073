// The catalog against a list that is searched from one end to the other, on drawn bests and questions.
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/random.h"
#include "server/store/best_store.h"
#include "tests/unit/catalog/catalog_case.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Match;

struct Filed {
  std::string program, key, class_id;
  int capability = 0;
  int64_t n = 0, g = 0, e = 0, t = 0, revision = 0;
};

struct Question {
  const KernelPlan* plan = nullptr;
  const DeviceClass* device_class = nullptr;
  int64_t n = 0, g = 0, e = 0;
  tunefarm::v1::LookupRule rule_of_e = tunefarm::v1::LOOKUP_RULE_EXACT;  // by the asked definition
  bool e_is_of_inputs = false;
  Match worst = tunefarm::v1::MATCH_DEFAULT;
};

struct Expected {
  Match match = tunefarm::v1::MATCH_NOT_FOUND;
  double distance = 0;
  int64_t revision = 0;  // of the best that answers; 0: none does
};

int Bucket(int64_t g) { return g <= 8 ? 0 : g <= 64 ? 1 : 2; }

double LogRatio(int64_t a, int64_t b) { return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b))); }

// None: it does not answer.
std::optional<double> DistanceOfE(tunefarm::v1::LookupRule rule, int64_t asked, int64_t tuned) {
  if (asked == tuned) return 0;
  if (rule == tunefarm::v1::LOOKUP_RULE_LOG) return LogRatio(asked, tuned);
  if (rule != tunefarm::v1::LOOKUP_RULE_NEXT_POWER_OF_TWO || tuned < asked) return std::nullopt;
  int64_t power = 1;
  while (power < asked) power *= 2;
  return tuned <= power ? std::make_optional(LogRatio(asked, tuned)) : std::nullopt;
}

// Of two problems in the same bucket; none: one does not answer for the other.
std::optional<double> Distance(const Question& asked, const Filed& best) {
  if (asked.e_is_of_inputs) return LogRatio(asked.n, best.n);
  if (asked.rule_of_e == tunefarm::v1::LOOKUP_RULE_PRODUCT) return LogRatio(asked.n * asked.e, best.n * best.e);
  const std::optional<double> by_e = DistanceOfE(asked.rule_of_e, asked.e, best.e);
  return by_e.has_value() ? std::make_optional(LogRatio(asked.n, best.n) + *by_e) : std::nullopt;
}

Expected Answer(const std::vector<Filed>& bests, const Question& asked, const std::string& key) {
  const std::string class_id = asked.device_class->Id();
  // Match, distance, whether the inputs are others on another class, another program, inputs off their default, newest.
  using Rank = std::tuple<Match, double, bool, bool, bool, int64_t>;
  std::optional<Rank> first;
  for (const Filed& best : bests) {
    const bool other_program = best.program != asked.plan->program_digest();
    Match match = tunefarm::v1::MATCH_NOT_FOUND;
    double distance = 0;
    if (best.class_id == class_id && best.key == key) {
      match = other_program ? tunefarm::v1::MATCH_STALE_SOURCE : tunefarm::v1::MATCH_EXACT;
    } else if (best.class_id == class_id) {
      const std::optional<double> own = Distance(asked, best);
      distance = own.value_or(0);
      const bool allowed = Bucket(asked.g) == Bucket(best.g) && own.has_value() && distance <= 4;
      if (allowed) match = tunefarm::v1::MATCH_NEAREST_SHAPE;
    } else if (best.capability == asked.device_class->compute_capability) {
      const bool is_same = best.key == key || (asked.e_is_of_inputs && asked.n == best.n && asked.g == best.g);
      if (is_same) match = tunefarm::v1::MATCH_SAME_ARCH;
    }
    if (match > asked.worst) continue;
    if (match != tunefarm::v1::MATCH_EXACT && asked.n % best.t != 0) continue;
    const Rank rank(match, match == tunefarm::v1::MATCH_NEAREST_SHAPE ? distance : 0,
                    match == tunefarm::v1::MATCH_SAME_ARCH && best.key != key, other_program,
                    asked.e_is_of_inputs && best.e != 1, -best.revision);
    if (match != tunefarm::v1::MATCH_NOT_FOUND && (!first || rank < *first)) first = rank;
  }
  if (first) return {std::get<0>(*first), std::get<1>(*first), -std::get<5>(*first)};
  const bool default_answers = asked.worst >= tunefarm::v1::MATCH_DEFAULT && asked.n % 32 == 0;
  return {default_answers ? tunefarm::v1::MATCH_DEFAULT : tunefarm::v1::MATCH_NOT_FOUND, 0, 0};
}

class MatchProperties : public CatalogCase, public testing::WithParamInterface<uint64_t> {
 protected:
  int64_t Draw(const std::vector<int64_t>& values) { return values[random_.UniformInt(values.size())]; }

  const DeviceClass* DrawClass() {
    const DeviceClass* const classes[] = {&h200_, &h100_, &a100_};
    return classes[random_.UniformInt(3)];
  }

  void FileOne() {
    const KernelPlan& plan = *plans_[random_.UniformInt(2)];
    const DeviceClass& device_class = *DrawClass();
    Filed best;
    best.n = Draw(kN);
    best.g = Draw(kG);
    best.e = Draw(kE);
    const ResolvedProblem problem = Problem(plan, best.n, best.g, best.e);
    best.t = Draw({32, 64, 96});
    File(plan, problem, device_class, best.t);
    best.program = plan.program_digest();
    best.key = problem.key;
    best.class_id = device_class.Id();
    best.capability = device_class.compute_capability;
    best.revision = revision_;
    std::erase_if(filed_, [&](const Filed& old) {
      return old.program == best.program && old.key == best.key && old.class_id == best.class_id;
    });
    filed_.push_back(best);
  }

  void AskOne() {
    Question asked;
    const size_t which = random_.UniformInt(plans_.size());
    asked.plan = plans_[which].get();
    asked.rule_of_e = asked.plan->kernel().dims(2).lookup();
    asked.e_is_of_inputs = asked.plan->kernel().dims(2).inputs_only();
    asked.device_class = DrawClass();
    asked.n = Draw(kN);
    asked.g = Draw(kG);
    asked.e = Draw(kE);
    asked.worst = static_cast<Match>(1 + random_.UniformInt(tunefarm::v1::MATCH_DEFAULT));
    const ResolvedProblem problem = Problem(*asked.plan, asked.n, asked.g, asked.e);
    const Expected expected = Answer(filed_, asked, problem.key);
    const CatalogAnswer answer = Ask(*asked.plan, problem, *asked.device_class, "13.0", asked.worst);
    SCOPED_TRACE(problem.key + " on " + asked.device_class->Id() + ", definition " + std::to_string(which));
    EXPECT_EQ(answer.match, expected.match);
    EXPECT_DOUBLE_EQ(answer.distance, expected.distance);
    EXPECT_EQ(answer.best == nullptr ? 0 : answer.best->revision(), expected.revision);
    EXPECT_EQ(answer.revision, revision_);
    CheckOnItsOwn(asked, problem, answer);
    // What was asked before does not matter: nor does it when the question is repeated.
    const CatalogAnswer again = Ask(*asked.plan, problem, *asked.device_class, "13.0", asked.worst);
    EXPECT_EQ(again.best != nullptr && again.match != tunefarm::v1::MATCH_DEFAULT ? again.best : nullptr,
              answer.match != tunefarm::v1::MATCH_DEFAULT ? answer.best : nullptr);
    matches_.insert(answer.match);
  }

  // What holds of any answer, whatever the search above says.
  void CheckOnItsOwn(const Question& asked, const ResolvedProblem& problem, const CatalogAnswer& answer) {
    const auto exact = catalog_.Find(asked.plan->program_digest(), problem.key, asked.device_class->Id());
    if (exact != nullptr) {
      EXPECT_EQ(answer.match, tunefarm::v1::MATCH_EXACT);
      EXPECT_EQ(answer.best, exact);
    }
    EXPECT_LE(answer.distance, 4) << "beyond the cutoff";
    if (answer.match != tunefarm::v1::MATCH_NEAREST_SHAPE) {
      EXPECT_EQ(answer.distance, 0);
    }
    if (answer.best == nullptr || answer.match == tunefarm::v1::MATCH_EXACT) return;
    EXPECT_EQ(asked.n % T(answer), 0) << "not a config of the asked problem";
    if (answer.match == tunefarm::v1::MATCH_NEAREST_SHAPE &&
        asked.rule_of_e == tunefarm::v1::LOOKUP_RULE_NEXT_POWER_OF_TWO) {
      EXPECT_GE(answer.best->problem().dims().at("E").int_value(), asked.e) << "smaller than asked";
    }
  }

  const std::vector<int64_t> kN = {96, 992, 1024, 1056, 2048, 3072, 4096, 16384, 65536};
  const std::vector<int64_t> kG = {4, 8, 9, 64, 65};
  const std::vector<int64_t> kE = {1, 3, 4};
  // Two programs of one name, and definitions of the first program by which E scales too, is rounded up, counts in a
  // product with N, or only describes inputs.
  const std::vector<std::shared_ptr<const KernelPlan>> plans_ = {
      Plan(),
      Plan("compile_options: \"-use_fast_math\""),
      Plan("", "scale", tunefarm::v1::LOOKUP_RULE_LOG),
      Plan("", "scale", tunefarm::v1::LOOKUP_RULE_NEXT_POWER_OF_TWO),
      Plan(
          "", "scale", tunefarm::v1::LOOKUP_RULE_PRODUCT,
          [](tunefarm::v1::Kernel* kernel) { kernel->mutable_dims(0)->set_lookup(tunefarm::v1::LOOKUP_RULE_PRODUCT); }),
      Plan("", "scale", tunefarm::v1::LOOKUP_RULE_EXACT,
           [](tunefarm::v1::Kernel* kernel) { kernel->mutable_dims(2)->set_inputs_only(true); })};
  PhiloxStream random_{GetParam(), 1};
  std::vector<Filed> filed_;
  std::set<Match> matches_;
};

TEST_P(MatchProperties, AnswersAsALinearSearchWould) {
  for (int i = 0; i < 200; ++i) {
    FileOne();
    for (int j = 0; j < 12; ++j) ASSERT_NO_FATAL_FAILURE(AskOne());
    if (HasFailure()) return;
  }
  // All kinds but STALE, which is about toolkits, were drawn.
  EXPECT_EQ(matches_.size(), 6U);
}

// Which of several that match equally well answers is told by their revisions, not by how they came in.
TEST_P(MatchProperties, TheOrderOfFilingDecidesNothing) {
  for (int i = 0; i < 150; ++i) FileOne();
  std::map<std::string, BestRow> latest;
  for (const BestRow& row : filed_rows_) latest[row.program_digest + row.problem_key + row.class_id] = row;
  Catalog other;
  for (const DeviceClass& known : {a100_, h200_, h100_}) other.AddClass(known.Id(), known);
  std::vector<BestRow> shuffled;
  for (const auto& [key, row] : latest) shuffled.push_back(row);
  for (size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[random_.UniformInt(i)]);
  for (const BestRow& row : shuffled) TUNEFARM_CHECK_OK(other.Update(row));
  for (int i = 0; i < 300; ++i) {
    const KernelPlan& plan = *plans_[random_.UniformInt(plans_.size())];
    const DeviceClass& device_class = *DrawClass();
    const ResolvedProblem problem = Problem(plan, Draw(kN), Draw(kG), Draw(kE));
    const CatalogAnswer answer = Ask(plan, problem, device_class);
    const CatalogAnswer same = AskIn(other, plan, problem, device_class, "13.0", tunefarm::v1::MATCH_UNSPECIFIED);
    EXPECT_EQ(answer.match, same.match) << problem.key;
    EXPECT_EQ(answer.distance, same.distance) << problem.key;
    ASSERT_EQ(answer.best == nullptr, same.best == nullptr) << problem.key;
    if (answer.best != nullptr) {
      EXPECT_EQ(answer.best->revision(), same.best->revision()) << problem.key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MatchProperties, testing::Range(uint64_t{1}, uint64_t{7}));

}  // namespace
}  // namespace tunefarm
