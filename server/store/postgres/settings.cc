#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/postgres/facets.h"
#include "server/store/setting_store.h"

namespace tunefarm::postgres {
namespace {

absl::StatusOr<std::optional<std::string>> Find(Session& session, std::string_view name) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT value FROM setting WHERE name = $1", name));
  return rows.empty() ? std::nullopt : std::optional<std::string>(rows[0].Bytes(0));
}

class PostgresSettings final : public Facet<SettingStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<std::string> GetOrPutSetting(std::string_view name, std::string_view value_if_absent) override {
    RETURN_IF_ERROR(CheckSettingName(name));
    // Most often it is there: daemons ask again and again.
    ASSIGN_OR_RETURN(std::optional<std::string> found,
                     pool_->Call(&Pool::Read, [&](Session& session) { return Find(session, name); }));
    if (!found.has_value()) {
      ASSIGN_OR_RETURN(found, pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<std::string> {
        RETURN_IF_ERROR(
            session
                .Run("INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, value_if_absent)
                .status());
        ASSIGN_OR_RETURN(std::optional<std::string> value, Find(session, name));
        if (!value.has_value()) return Internal("setting {} is gone", name);
        return *std::move(value);
      }));
    }
    if (name == kCatalogIdSetting) NoteCatalogId(*found);
    return *std::move(found);
  }

  absl::Status PutSetting(std::string_view name, std::string_view value) override {
    RETURN_IF_ERROR(CheckSettingName(name));
    RETURN_IF_ERROR(pool_->Write([&](Session& session) {
      return session
          .Run(
              "INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = "
              "excluded.value",
              name, value)
          .status();
    }));
    if (name == kCatalogIdSetting) NoteCatalogId(value);
    return absl::OkStatus();
  }

 private:
  // Another catalog than before: ids of studies may mean others than they did.
  void NoteCatalogId(std::string_view id) {
    if (facts_->Begin(id)) board_->Invalidate();
  }
};

}  // namespace

std::unique_ptr<SettingStore> NewSettingStore(const Shared& shared) {
  return std::make_unique<PostgresSettings>(shared);
}

}  // namespace tunefarm::postgres
