// SettingStore: small values that outlive the daemon (the host device's id). Names that start with "store." are
// refused. Threads and errors: as Store (store.h).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

class SettingStore {
 public:
  virtual ~SettingStore() = default;

  // Left out of copies of the database: what is restored from one is another catalog, whose revisions mean something
  // else.
  static constexpr std::string_view kCatalogIdSetting = "catalog.id";

  virtual absl::StatusOr<std::string> GetOrPutSetting(std::string_view name, std::string_view value_if_absent) = 0;
  // The value from now on, whatever it was.
  virtual absl::Status PutSetting(std::string_view name, std::string_view value) = 0;
};

}  // namespace tunefarm
