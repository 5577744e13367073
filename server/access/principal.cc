#include "server/access/principal.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "server/base/edit_distance.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr std::string_view kScheme = "tunefarm://";
constexpr size_t kUriBytesMax = 256;
constexpr size_t kNameBytesMax = 64;

struct Role {
  std::string_view name;
  Rights rights;
};

constexpr std::array kRoles = {
    Role{"lookup", Rights().With(Right::kLookup)},
    Role{"submit", Rights().With(Right::kLookup).With(Right::kSubmit)},
    Role{"kernels", Rights().With(Right::kLookup).With(Right::kKernels)},
    Role{"agent", Rights().With(Right::kLookup).With(Right::kAgent)},
    Role{"admin", Rights().With(Right::kAdmin)},
};

// What a client showed may hold anything.
std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, 100));
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.size() > shown.size() ? shown + "..." : shown;
}

}  // namespace

std::string_view RightName(Right right) {
  switch (right) {
    case Right::kLookup:
      return "lookup";
    case Right::kSubmit:
      return "submit";
    case Right::kKernels:
      return "kernels";
    case Right::kAgent:
      return "agent";
    case Right::kAdmin:
      return "admin";
  }
  return "unknown";
}

absl::StatusOr<Rights> ParseRoles(std::string_view roles, char separator) {
  Rights rights;
  std::vector<std::string_view> seen;
  while (true) {
    const size_t end = roles.find(separator);
    const std::string_view word = roles.substr(0, end);
    const auto role = std::find_if(kRoles.begin(), kRoles.end(), [&](const Role& r) { return r.name == word; });
    if (role == kRoles.end()) {
      const std::vector<std::string> names = {"lookup", "submit", "kernels", "agent", "admin"};
      const std::optional<std::string> close = ClosestMatch(Shown(word), names);
      return WithReason(InvalidArgument("'{}' is not a role{}; roles are lookup, submit, kernels, agent and admin",
                                        Shown(word), close ? fmt::format(" (did you mean '{}'?)", *close) : ""),
                        "ROLE_UNKNOWN");
    }
    if (std::find(seen.begin(), seen.end(), word) != seen.end()) {
      return WithReason(InvalidArgument("the role {} is given twice", word), "ROLE_UNKNOWN");
    }
    seen.push_back(word);
    rights = rights.With(role->rights);
    if (end == std::string_view::npos) return rights;
    roles.remove_prefix(end + 1);
  }
}

absl::Status CheckPrincipalName(std::string_view name) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 && c < 0x80; };
  const bool is_name = !name.empty() && name.size() <= kNameBytesMax && is_word(static_cast<unsigned char>(name[0])) &&
                       std::all_of(name.begin(), name.end(),
                                   [&](unsigned char c) { return is_word(c) || c == '.' || c == '_' || c == '-'; });
  if (is_name) return absl::OkStatus();
  return WithReason(InvalidArgument("the name '{}' must be 1 to {} letters, digits, '.', '_' and '-', and begin with a "
                                    "letter or digit",
                                    Shown(name), kNameBytesMax),
                    "PRINCIPAL_NAME_INVALID");
}

std::string_view PrincipalKindName(PrincipalKind kind) {
  switch (kind) {
    case PrincipalKind::kSocket:
      return "socket";
    case PrincipalKind::kCertificate:
      return "certificate";
    case PrincipalKind::kToken:
      return "token";
    case PrincipalKind::kSession:
      return "session";
    case PrincipalKind::kVisitor:
      return "visitor";
  }
  return "unknown";
}

std::string Principal::Text() const {
  if (kind == PrincipalKind::kSession) return fmt::format("the session of {}", name);
  return fmt::format("the {} {}", PrincipalKindName(kind), name);
}

Principal AdminSocket() { return {"admin.sock", PrincipalKind::kSocket, Rights().With(Right::kAdmin)}; }

Principal ClientSocket() {
  return {"client.sock", PrincipalKind::kSocket,
          Rights().With(Right::kLookup).With(Right::kSubmit).With(Right::kKernels)};
}

Principal LoopbackListener() {
  Principal principal = ClientSocket();
  principal.name = "loopback";
  return principal;
}

Principal InsecureListener() {
  Principal principal = ClientSocket();
  principal.name = "insecure";
  principal.rights = principal.rights.With(Right::kAgent);
  return principal;
}

Principal Visitor() { return {"", PrincipalKind::kVisitor, Rights().With(Right::kLookup)}; }

absl::StatusOr<Principal> PrincipalOfUri(std::string_view uri) {
  const auto refused = [&](std::string_view why) {
    return WithReason(Unauthenticated("the certificate's identity '{}' {}; it must be {}<role[+role]>/<name>, such as "
                                      "tunefarm://submit+kernels/alice",
                                      Shown(uri), why, kScheme),
                      "CERTIFICATE_IDENTITY");
  };
  if (uri.size() > kUriBytesMax) return refused("is too long");
  if (uri.substr(0, kScheme.size()) != kScheme) return refused("is not one of tunefarm's");
  const std::string_view rest = uri.substr(kScheme.size());
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return refused("has no name");
  const absl::StatusOr<Rights> rights = ParseRoles(rest.substr(0, slash), '+');
  if (!rights.ok()) return refused(fmt::format("has roles that are unknown ({})", MessageOf(rights.status())));
  if (!CheckPrincipalName(rest.substr(slash + 1)).ok()) return refused("has a name that is none");
  return Principal{std::string(rest), PrincipalKind::kCertificate, *rights};
}

std::string UriOf(std::string_view roles, std::string_view name) {
  std::string joined(roles);
  std::replace(joined.begin(), joined.end(), ',', '+');
  return fmt::format("{}{}/{}", kScheme, joined, name);
}

absl::Status CheckRight(const Principal& principal, Right right, std::string_view does) {
  if (principal.Has(right)) return absl::OkStatus();
  return WithReason(PermissionDenied("{} may not {}: it needs the role {}{}", principal.Text(), does, RightName(right),
                                     right == Right::kAdmin ? ", which the admin socket has" : ""),
                    right == Right::kAdmin ? "ADMIN_ONLY" : "RIGHT_MISSING");
}

}  // namespace tunefarm
