// The name of the setting that keeps the id of a host's own CPU, which must outlive the daemon.
#pragma once

#include <string>

#include "server/daemon/process_stats.h"

namespace tunefarm {

// Of a database that hosts share each has one of its own.
inline std::string HostDeviceSetting(bool is_on_postgres) {
  return is_on_postgres ? ("host_device_uuid/" + HostName()).substr(0, 128) : "host_device_uuid";
}

}  // namespace tunefarm
