#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {

AgentRow ReadAgent(const Row& row) {
  AgentRow agent;
  agent.agent_id = row.Bytes(0);
  agent.host = row.Bytes(1);
  agent.detail = row.Bytes(2);
  agent.epoch = row.Int(3);
  agent.draining = row.Int(4) != 0;
  agent.registered_at_ms = row.Int(5);
  if (!row.IsNull(6)) agent.lease_left_ms = row.Int(6);
  return agent;
}

namespace {

template <typename Parts>
Digest DigestOf(const Parts& parts) {
  Sha256Stream stream;
  for (const std::string_view part : parts) {
    stream.Update(std::to_string(part.size()) + ":");
    stream.Update(part);
  }
  return stream.Finish();
}

}  // namespace

Digest KeyOf(std::initializer_list<std::string_view> parts) { return DigestOf(parts); }
Digest KeyOf(const std::vector<std::string>& parts) { return DigestOf(parts); }

std::string ListOf(const std::vector<int64_t>& numbers) {
  std::string text = "[";
  for (const int64_t number : numbers) {
    if (text.size() > 1) text += ',';
    text += std::to_string(number);
  }
  return text + "]";
}

}  // namespace tunefarm::postgres
