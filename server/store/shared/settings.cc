#include "server/store/checks.h"
#include "server/store/setting_store.h"
#include "server/store/shared/facets.h"

namespace tunefarm {
namespace {

absl::StatusOr<std::optional<std::string>> Find(Sql& sql, std::string_view name) {
  return sql.ReadOne(Sql::ReadBytes, "SELECT value FROM setting WHERE name = $1", name);
}

class Settings final : public SharedFacet<SettingStore> {
 public:
  Settings(SqlBackend* backend, std::function<void(std::string_view)> on_catalog_id)
      : SharedFacet(backend), on_catalog_id_(std::move(on_catalog_id)) {}

  absl::StatusOr<std::string> GetOrPutSetting(std::string_view name, std::string_view value_if_absent) override {
    RETURN_IF_ERROR(CheckSettingName(name));
    // Most often it is there: daemons ask again and again.
    ASSIGN_OR_RETURN(std::optional<std::string> found, backend_->Read([&](Sql& sql) { return Find(sql, name); }));
    if (!found.has_value()) {
      ASSIGN_OR_RETURN(found, backend_->Write([&](Sql& sql) -> absl::StatusOr<std::optional<std::string>> {
        RETURN_IF_ERROR(
            sql.Run("INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, value_if_absent));
        return Find(sql, name);
      }));
      if (!found.has_value()) return Internal("setting {} is gone", name);
    }
    NoteCatalogId(name, *found);
    return *std::move(found);
  }

  absl::Status PutSetting(std::string_view name, std::string_view value) override {
    RETURN_IF_ERROR(CheckSettingName(name));
    RETURN_IF_ERROR(backend_->Write([&](Sql& sql) {
      return sql.Run(
          "INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
          name, value);
    }));
    NoteCatalogId(name, value);
    return absl::OkStatus();
  }

 private:
  void NoteCatalogId(std::string_view name, std::string_view value) const {
    if (name == kCatalogIdSetting && on_catalog_id_ != nullptr) on_catalog_id_(value);
  }

  const std::function<void(std::string_view)> on_catalog_id_;
};

}  // namespace

std::unique_ptr<SettingStore> NewSettingStore(SqlBackend* backend,
                                              std::function<void(std::string_view id)> on_catalog_id) {
  return std::make_unique<Settings>(backend, std::move(on_catalog_id));
}

}  // namespace tunefarm
