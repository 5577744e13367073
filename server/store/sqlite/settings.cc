#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/setting_store.h"
#include "server/store/sqlite/facets.h"

namespace tunefarm::sqlite {
namespace {

absl::StatusOr<std::optional<std::string>> Find(Database& database, std::string_view name) {
  Statement row = database.Prepare("SELECT value FROM setting WHERE name = ?");
  ASSIGN_OR_RETURN(const bool has_row, row.Bind(name).Step());
  return has_row ? std::optional<std::string>(row.Bytes(0)) : std::nullopt;
}

class SqliteSettings final : public Facet<SettingStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<std::string> GetOrPutSetting(std::string_view name, std::string_view value_if_absent) override {
    RETURN_IF_ERROR(CheckSettingName(name));
    // Most often it is there: daemons ask again and again.
    ASSIGN_OR_RETURN(std::optional<std::string> found,
                     readers_->Read([&](Database& database) { return Find(database, name); }));
    if (found.has_value()) return *std::move(found);
    return writer_->Call([&](Database& database) -> absl::StatusOr<std::string> {
      RETURN_IF_ERROR(database.Prepare("INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING")
                          .Bind(name, value_if_absent)
                          .Run());
      ASSIGN_OR_RETURN(std::optional<std::string> value, Find(database, name));
      if (!value.has_value()) return Internal("setting {} is gone", name);
      return *std::move(value);
    });
  }

  absl::Status PutSetting(std::string_view name, std::string_view value) override {
    RETURN_IF_ERROR(CheckSettingName(name));
    return writer_->Run([&](Database& database) {
      return database.Prepare("INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)").Bind(name, value).Run();
    });
  }
};

}  // namespace

std::unique_ptr<SettingStore> NewSettingStore(const Shared& shared) { return std::make_unique<SqliteSettings>(shared); }

}  // namespace tunefarm::sqlite
