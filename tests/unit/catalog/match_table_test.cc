// The match rules as a table: what is tuned, what is asked, which of it answers, and how far away it is.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/catalog/catalog_case.h"

namespace tunefarm {
namespace {

using tunefarm::v1::LookupRule;
using tunefarm::v1::Match;

constexpr Match kExact = tunefarm::v1::MATCH_EXACT, kStale = tunefarm::v1::MATCH_STALE,
                kStaleSource = tunefarm::v1::MATCH_STALE_SOURCE, kNear = tunefarm::v1::MATCH_NEAREST_SHAPE,
                kSameArch = tunefarm::v1::MATCH_SAME_ARCH, kDefault = tunefarm::v1::MATCH_DEFAULT,
                kNotFound = tunefarm::v1::MATCH_NOT_FOUND;
constexpr LookupRule kByExact = tunefarm::v1::LOOKUP_RULE_EXACT, kByPower = tunefarm::v1::LOOKUP_RULE_NEXT_POWER_OF_TWO;

// N is looked up by ratio, G by bucket (up to 8, up to 64, above), E by the case's rule. T must divide N; 32 is the
// default.
struct Shape {
  int64_t n = 1024, g = 4, e = 1;
  int64_t t = 32;               // tuned: the winner
  const char* device = "H200";  // H100: the same compute capability; A100: another
  bool older = false;           // tuned: by an earlier program of the same name
};

struct Case {
  const char* name;
  std::vector<Shape> tuned;  // in this order
  Shape asked;
  Match match = kNotFound;
  double distance = 0;
  int answer = -1;  // index into tuned; -1: none of them
  LookupRule rule_of_e = kByExact;
  const char* declared = "";
  Match worst = tunefarm::v1::MATCH_UNSPECIFIED;
  const char* toolkit = "13.0";  // of the asked device; measured with 13.0
};

std::vector<Case> Cases() {
  const double half = std::log2(1.5);
  return {
      {"the very shape", {{.n = 2048}, {.n = 1024}}, {.n = 1024}, kExact, 0, 1},
      {"exact before a newer one that is near", {{.n = 1024}, {.n = 1056}}, {.n = 1024}, kExact, 0, 0},
      {"exact before one in the same bucket", {{.g = 4}, {.g = 5}}, {.g = 4}, kExact, 0, 0},
      {"exact before one that is rounded up", {{.e = 3}, {.e = 4}}, {.e = 3}, kExact, 0, 0, kByPower},
      {"another toolkit", {{.n = 1024}}, {.n = 1024}, kStale, 0, 0, kByExact, "", {}, "13.1"},
      {"another toolkit will not do", {{.n = 1024}}, {.n = 1024}, kNotFound, 0, -1, kByExact, "", kExact, "13.1"},
      {"an earlier program", {{.n = 1024, .older = true}}, {.n = 1024}, kStaleSource, 0, 0},
      {"an earlier program before a near shape",
       {{.n = 1024, .older = true}, {.n = 1056}},
       {.n = 1024},
       kStaleSource,
       0,
       0},
      {"an earlier program's config that is not valid", {{.n = 1024, .t = 96, .older = true}}, {.n = 1024}, kDefault},
      {"nearest by ratio, not by difference", {{.n = 512}, {.n = 1536}}, {.n = 1024}, kNear, half, 1},
      {"as near below as above: the newer", {{.n = 2048}, {.n = 512}}, {.n = 1024}, kNear, 1, 1},
      {"as near above as below: the newer", {{.n = 512}, {.n = 2048}}, {.n = 1024}, kNear, 1, 1},
      {"equally near: the asked program's, though older",
       {{.n = 2048}, {.n = 512, .older = true}},
       {.n = 1024},
       kNear,
       1,
       0},
      {"the nearest that is valid", {{.n = 1056, .t = 96}, {.n = 4096}}, {.n = 1024}, kNear, 2, 1},
      {"none that is valid, nor the default", {{.n = 1056, .t = 96}}, {.n = 1000}, kNotFound},
      {"as far as is usual", {{.n = 1024}}, {.n = 16384}, kNear, 4, 0},
      {"farther than is usual", {{.n = 1024}}, {.n = 16416}, kDefault},
      {"as far as declared", {{.n = 1024}}, {.n = 2048}, kNear, 1, 0, kByExact, "lookup_distance_max: 1"},
      {"farther than declared", {{.n = 1024}}, {.n = 2080}, kDefault, 0, -1, kByExact, "lookup_distance_max: 1"},
      {"no distance allowed", {{.n = 1024}}, {.n = 1056}, kDefault, 0, -1, kByExact, "lookup_distance_max: 0"},
      {"near shapes will not do", {{.n = 1024}}, {.n = 2048}, kNotFound, 0, -1, kByExact, "", kStaleSource},
      {"EXACT dims must be equal", {{.e = 2}}, {.e = 1}, kDefault},
      {"the same bucket is no distance", {{.g = 8}}, {.g = 1}, kNear, 0, 0},
      {"a bucket includes its bound", {{.g = 9}}, {.g = 8}, kDefault},
      {"the next bucket", {{.g = 64}}, {.g = 9}, kNear, 0, 0},
      {"what is above the last bound is a bucket", {{.g = 65}}, {.g = 1 << 20}, kNear, 0, 0},
      {"in a bucket the newest, not the nearest", {{.g = 10}, {.g = 60}}, {.g = 11}, kNear, 0, 1},
      {"a bucket and a ratio", {{.n = 2048, .g = 7}, {.n = 512, .g = 9}}, {.n = 1024, .g = 4}, kNear, 1, 0},
      {"a bucket is no way around the cutoff",
       {{.n = 4096, .g = 7}},
       {.n = 1024},
       kDefault,
       0,
       -1,
       kByExact,
       "lookup_distance_max: 1"},
      {"rounded up", {{.e = 64}}, {.e = 48}, kNear, std::log2(64.0 / 48), 0, kByPower},
      {"rounded up by one", {{.e = 64}}, {.e = 63}, kNear, std::log2(64.0 / 63), 0, kByPower},
      {"a power of two is its own", {{.e = 128}}, {.e = 64}, kDefault, 0, -1, kByPower},
      {"never a smaller one", {{.e = 32}, {.e = 47}}, {.e = 48}, kDefault, 0, -1, kByPower},
      {"never beyond the next power", {{.e = 65}, {.e = 128}}, {.e = 48}, kDefault, 0, -1, kByPower},
      {"between it and the next power: the nearest",
       {{.e = 50}, {.e = 64}},
       {.e = 48},
       kNear,
       std::log2(50.0 / 48),
       0,
       kByPower},
      {"two is the next of itself", {{.e = 2}, {.e = 1}}, {.e = 2}, kExact, 0, 0, kByPower},
      {"one has no other", {{.e = 2}}, {.e = 1}, kDefault, 0, -1, kByPower},
      {"large values are rounded too", {{.e = int64_t{1} << 40}}, {.e = (int64_t{1} << 39) + 1}, kNear, 1, 0, kByPower},
      {"rounding up counts as distance",
       {{.n = 2048, .e = 64}, {.n = 1024, .e = 64}},
       {.n = 1024, .e = 48},
       kNear,
       std::log2(64.0 / 48),
       1,
       kByPower},
      {"rounding up is cut off too", {{.e = 64}}, {.e = 33}, kDefault, 0, -1, kByPower, "lookup_distance_max: 0.5"},
      {"rounding up within the cutoff",
       {{.e = 64}},
       {.e = 48},
       kNear,
       std::log2(64.0 / 48),
       0,
       kByPower,
       "lookup_distance_max: 0.5"},
      {"another device of the same architecture", {{.device = "H100"}}, {}, kSameArch, 0, 0},
      {"a near shape of the class before another device", {{.device = "H100"}, {.n = 2048}}, {.n = 1024}, kNear, 1, 1},
      {"another device's near shape", {{.n = 2048, .device = "H100"}}, {.n = 1024}, kDefault},
      {"another architecture", {{.device = "A100"}}, {}, kDefault},
      {"another device will not do", {{.device = "H100"}}, {}, kNotFound, 0, -1, kByExact, "", kNear},
      {"another device's config that is not valid", {{.n = 1024, .t = 96, .device = "H100"}}, {.n = 1024}, kDefault},
      {"nothing is tuned", {}, {}, kDefault},
      {"the default will not do", {}, {}, kNotFound, 0, -1, kByExact, "", kSameArch},
      {"the default is not valid", {}, {.n = 1000}, kNotFound},
  };
}

class MatchTable : public CatalogCase {
 protected:
  const DeviceClass& Device(const std::string& name) const {
    return name == "H200" ? h200_ : name == "H100" ? h100_ : a100_;
  }
};

TEST_F(MatchTable, WhichAnswersAtWhichDistance) {
  int number = 0;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const std::string name = "kernel" + std::to_string(number++);
    // In what a program is, the cutoff has no part.
    const auto plan = Plan(c.declared, name, c.rule_of_e);
    const auto older = Plan(std::string(c.declared) + " compile_options: \"-use_fast_math\"", name, c.rule_of_e);
    // Programs have no names: bests of the case before would be this one's too.
    Catalog fresh;
    for (const DeviceClass& known : {h200_, h100_, a100_}) fresh.AddClass(known.Id(), known);
    std::vector<int64_t> revisions;
    for (const Shape& tuned : c.tuned) {
      const KernelPlan& by = tuned.older ? *older : *plan;
      FileIn(&fresh, by, Problem(by, tuned.n, tuned.g, tuned.e), Device(tuned.device), tuned.t);
      revisions.push_back(revision_);
    }
    const ResolvedProblem asked = Problem(*plan, c.asked.n, c.asked.g, c.asked.e);
    const CatalogAnswer answer = AskIn(fresh, *plan, asked, Device(c.asked.device), c.toolkit, c.worst);
    EXPECT_EQ(answer.match, c.match);
    EXPECT_NEAR(answer.distance, c.distance, 1e-9);
    ASSERT_EQ(answer.best == nullptr, c.match == kNotFound);
    const int64_t revision = answer.best == nullptr ? 0 : answer.best->revision();
    EXPECT_EQ(revision, c.answer < 0 ? 0 : revisions[static_cast<size_t>(c.answer)]);
  }
}

}  // namespace
}  // namespace tunefarm
