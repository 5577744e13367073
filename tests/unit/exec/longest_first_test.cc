#include "server/exec/longest_first.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/random.h"

namespace tunefarm {
namespace {

struct Task {
  double expected_ms = 0;
};
struct Waiting {
  Task task;
  int passed_over = 0;
  int number = 0;
};

std::deque<Waiting> QueueOf(const std::vector<double>& expected_ms) {
  std::deque<Waiting> queue;
  for (const double ms : expected_ms) queue.push_back({{ms}, 0, static_cast<int>(queue.size())});
  return queue;
}

int Take(std::deque<Waiting>* queue, int passed_over_max = 100) {
  const auto picked = LongestFirst(*queue, passed_over_max);
  for (auto it = queue->begin(); it != picked; ++it) ++it->passed_over;
  const int number = picked->number;
  queue->erase(picked);
  return number;
}

TEST(LongestFirst, TakesTheLongestAndTheOlderOfEqualOnes) {
  auto queue = QueueOf({3, 5, 1, 5});
  EXPECT_EQ(Take(&queue), 1);
  EXPECT_EQ(Take(&queue), 3);
  EXPECT_EQ(Take(&queue), 0);
  EXPECT_EQ(Take(&queue), 2);
}

TEST(LongestFirst, TheUnknownGoFirstInTheirOrder) {
  auto queue = QueueOf({3, 0, 9, 0});
  EXPECT_EQ(Take(&queue), 1);
  EXPECT_EQ(Take(&queue), 3);
  EXPECT_EQ(Take(&queue), 2);
}

TEST(LongestFirst, NobodyWaitsForEver) {
  auto queue = QueueOf({1});
  int taken = 0;
  for (int number = 1; taken != 0 || number == 1; ++number) {
    queue.push_back({{10}, 0, number});
    taken = Take(&queue, 4);
    ASSERT_LE(number, 5);
  }
}

// A study on `workers` cores through a window as the agent keeps it, with times that are known to a factor of about
// 1.3: how long after the bound its last compile ends.
double TailOf(bool longest_first, uint64_t seed, int workers) {
  constexpr int kTasks = 300;
  PhiloxStream random(seed, 0);
  const auto normal = [&random] {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.UniformInt(1 << 20)) / (1 << 20);
    return sum;
  };
  std::vector<double> times, expected;
  for (int i = 0; i < kTasks; ++i) {
    times.push_back(std::exp(0.8 * normal()));
    expected.push_back(longest_first ? times.back() * std::exp(0.25 * normal()) : 1);
  }
  std::vector<double> free_at(static_cast<size_t>(workers), 0);
  std::deque<Waiting> queue;
  int next = 0;
  double end = 0;
  while (next < kTasks || !queue.empty()) {
    while (next < kTasks && static_cast<int>(queue.size()) < 2 * workers) {
      queue.push_back({{expected[static_cast<size_t>(next)]}, 0, next});
      ++next;
    }
    double& worker = *std::min_element(free_at.begin(), free_at.end());
    worker += times[static_cast<size_t>(Take(&queue, 2 * workers))];
    end = std::max(end, worker);
  }
  return end - std::accumulate(times.begin(), times.end(), 0.0) / workers;
}

TEST(LongestFirst, TheTailOfAStudyIsShorter) {
  double by_order = 0, by_length = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    by_order += TailOf(false, seed, 16) / 50;
    by_length += TailOf(true, seed, 16) / 50;
  }
  RecordProperty("tail_in_order", std::to_string(by_order));
  RecordProperty("tail_longest_first", std::to_string(by_length));
  EXPECT_LT(by_length, 0.75 * by_order) << "in units of a median compile; in order " << by_order;
}

}  // namespace
}  // namespace tunefarm
