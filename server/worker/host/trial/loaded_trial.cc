#include "server/worker/host/trial/loaded_trial.h"

#include <algorithm>

namespace tunefarm {
namespace {

bool SameViews(const BufferViews& a, const BufferViews& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.type == other.second.type &&
           one.second.bytes.data() == other.second.bytes.data() && one.second.bytes.size() == other.second.bytes.size();
  });
}

}  // namespace

bool LoadedTrial::Serves(const std::string& wanted_artifact, const std::map<std::string, std::string>& wanted_names,
                         uint64_t seed, const BufferViews& wanted_buffers) const {
  return trials > 0 && input_seed == seed && artifact == wanted_artifact && lowered_names == wanted_names &&
         SameViews(buffers, wanted_buffers);
}

}  // namespace tunefarm
