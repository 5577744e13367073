// ClaimDesk: how units of the store become claims of agents, and how dropped claims end.
//
// Thread-safe. Calls read and write the store and block meanwhile; hooks are called on the caller's thread with no lock
// held.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/farm/agent_registry.h"
#include "server/farm/claim_filters.h"
#include "server/farm/claims.h"
#include "server/farm/compile_desk.h"
#include "server/farm/device_directory.h"
#include "server/farm/link_hooks.h"
#include "server/records/kernel_registry.h"
#include "server/store/store.h"
#include "server/store/unit_store.h"
#include "tunefarm/agent/v1/agent.pb.h"

namespace tunefarm {

class ClaimDesk {
 public:
  // All outlive it.
  struct Parts {
    Store* store = nullptr;
    Clock* clock = nullptr;
    KernelRegistry* kernels = nullptr;
    DeviceDirectory* devices = nullptr;
    AgentRegistry* agents = nullptr;
    Claims* claims = nullptr;
    ClaimFilters* filters = nullptr;
    CompileDesk* compiles = nullptr;
    const LinkHooks* hooks = nullptr;
  };
  explicit ClaimDesk(const Parts& parts) : p_(parts) {}

  // Claims units from the queue for a device of the agent and adds those that it is to run to the response. The store's
  // errors: FailedPrecondition if the agent's epoch is over. What was added before an error is the agent's.
  absl::Status ClaimFor(const tunefarm::agent::v1::SynchronizeRequest& request, const std::string& device_uuid,
                        const Claims::Demand& demand, tunefarm::agent::v1::SynchronizeResponse* response);

  // The agent's claims in the store, but for some. `device_of`: where they run, by unit, as the agent lists them.
  // `replacements`: Store::Replacements before the call. Unavailable: they cannot be read now.
  absl::StatusOr<std::vector<Claim>> Read(const tunefarm::agent::v1::RegisterRequest& about, int64_t epoch,
                                          int64_t replacements, const std::map<int64_t, std::string>& device_of,
                                          const std::set<int64_t>& except);
  // Takes in what was claimed for a served agent and nobody was told of: through another daemon, after this one had
  // taken the agent over, by a call that the agent had given up there and that went on; or here, where the database did
  // not say in time that it had stored the claim. The agent lists none of it, and nobody else would ever hand it out.
  absl::Status ReadLate(const tunefarm::agent::v1::RegisterRequest& about, int64_t epoch);

  // Ends dropped claims that no agent has. What the store does not take is tried again by the next call.
  void EndDropped();

 private:
  absl::Status ClaimUntilDelivered(const tunefarm::agent::v1::SynchronizeRequest& request,
                                   const std::string& device_uuid, const Claims::Demand& demand,
                                   tunefarm::agent::v1::SynchronizeResponse* response);
  // False if the unit was not handed out and another may be claimed in its place.
  bool HandOut(const tunefarm::agent::v1::SynchronizeRequest& request, const Claims::Unmade& unit,
               tunefarm::agent::v1::SynchronizeResponse* response);
  // Stores what is known of the claim's trials without running them.
  void Filter(Claim* claim, const tunefarm::v1::Job& spec);
  // The claim is left without these trials. Aborted: it is another agent's now.
  absl::Status StoreWithoutRun(Claim* claim, absl::StatusOr<ClaimFilters::Trials> trials);
  // Before the first unit of a study is handed out or taken over: whether the store has works of it, which it may have
  // where it cannot be read.
  void NoteWorks(const Claim& claim);
  // Back to the queue.
  void Return(const Claim& claim);
  // Where a claim of the agent runs, for all that is known of it.
  absl::StatusOr<std::string> DeviceOf(const tunefarm::agent::v1::RegisterRequest& about, const ClaimedUnit& claimed);

  const Parts p_;
};

}  // namespace tunefarm
