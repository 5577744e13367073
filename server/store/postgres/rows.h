#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "server/base/hash.h"
#include "server/store/agent_store.h"
#include "server/store/postgres/session.h"
#include "server/store/read_rows.h"

namespace tunefarm::postgres {

#define TUNEFARM_PG_AGENT_COLUMNS                               \
  "agent_id, host, detail, epoch, draining, registered_at_ms, " \
  "(extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint"
AgentRow ReadAgent(const Row& row);

// Stands for a key whose parts may be longer than an index entry: the SHA-256 of each with its length before it.
Digest KeyOf(const std::vector<std::string>& parts);
Digest KeyOf(std::initializer_list<std::string_view> parts);
inline Digest KeyOf(const BestKey& key) { return KeyOf({key.program_digest, key.problem_key, key.class_id}); }
inline Digest KeyOf(const BestRow& best) { return KeyOf({best.program_digest, best.problem_key, best.class_id}); }

// The states or outcomes of a filter, sorted: how they are bound, and how a page token names them.
template <typename Numbers>
std::vector<int64_t> Sorted(const Numbers& numbers) {
  std::vector<int64_t> sorted;
  for (const auto number : numbers) sorted.push_back(static_cast<int64_t>(number));
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}
std::string ListOf(const std::vector<int64_t>& numbers);

// All rows, each read by `read`, such as one of read_rows.h.
template <typename Read>
auto ReadAll(const Rows& rows, Read read) {
  std::vector<std::invoke_result_t<Read, const Row&>> all;
  all.reserve(static_cast<size_t>(rows.size()));
  for (int i = 0; i < rows.size(); ++i) all.push_back(read(rows[i]));
  return all;
}

}  // namespace tunefarm::postgres
