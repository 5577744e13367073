// libpq, opened with the first database instead of being linked: it brings Kerberos, LDAP and SASL with it, 12 MiB that
// a daemon on SQLite has no use for. The functions of <libpq-fe.h> that are used here are forwarded by libpq.cc under
// their own names; one more is a linker error until it is added there.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace tunefarm::postgres {

// Call once before the first function of <libpq-fe.h>; may be called again, from any thread. FailedPrecondition with
// what to install where the library is missing or lacks a function.
absl::Status LoadLibpq(const std::string& name = "libpq.so.5");

}  // namespace tunefarm::postgres
