#include "server/daemon/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "server/base/check.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class DaemonConfigTest : public testing::Test {
 protected:
  DaemonConfigTest() {
    environment_["HOME"] = directory_.path();
    environment_["XDG_CONFIG_HOME"] = directory_.File("config");
    environment_["XDG_DATA_HOME"] = directory_.File("data");
  }
  absl::StatusOr<DaemonConfig> Parse(const std::vector<std::string>& arguments) {
    return ParseDaemonConfig(arguments, [this](const char* name) -> std::optional<std::string> {
      const auto found = environment_.find(name);
      if (found == environment_.end()) return std::nullopt;
      return found->second;
    });
  }
  std::string ErrorOf(const std::vector<std::string>& arguments) {
    const auto config = Parse(arguments);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(MessageOf(config.status()));
  }
  // Writes a configuration file and returns its path.
  std::string File(const std::string& text) {
    const std::string path = directory_.File("tunefarmd.toml");
    TUNEFARM_CHECK_OK(WriteFileAtomically(path, text));
    return path;
  }
  std::string FileError(const std::string& text) { return ErrorOf({"--config", File(text)}); }

  TemporaryDirectory directory_;
  std::map<std::string, std::string> environment_;
};

TEST_F(DaemonConfigTest, SecretsThatOthersMayReadAreRefused) {
  const std::string key = directory_.File("c.key");
  TUNEFARM_CHECK_OK(WriteFileAtomically(key, "", 0644));
  EXPECT_THAT(
      ErrorOf({"--role", "agent", "--control", "c:1", "--tls-ca", "ca", "--tls-certificate", "c", "--tls-key", key}),
      HasSubstr("run: chmod 600 " + key));
  EXPECT_THAT(ErrorOf({"--tls-certificate", "c", "--tls-key", key}), HasSubstr("run: chmod 600 " + key));
  const std::string file = File("store = \"postgres://me:secret@host/db\"\n");
  EXPECT_THAT(ErrorOf({"--config", file}),
              AllOf(HasSubstr("run: chmod 600 " + file), testing::Not(HasSubstr("secret"))));
  TUNEFARM_CHECK_OK(WriteFileAtomically(file, "store = \"postgres://me@host/db\"\n", 0644));
  const absl::Status without = Parse({"--config", file}).status();
  EXPECT_THAT(std::string(without.message()), testing::Not(HasSubstr("chmod")));
}

TEST_F(DaemonConfigTest, NumbersAreWholeAndInTheirRange) {
  for (const char* const text : {"nan", "inf", "-inf", "-1", "1e3", "2.5", "0x1000", "99999999999999999999", "1025"}) {
    EXPECT_THAT(ErrorOf({std::string("--compile-workers=") + text}),
                testing::AnyOf(HasSubstr("is not a whole number"), HasSubstr("must be from 0 to 1024")))
        << text;
    environment_["TUNEFARM_COMPILE_WORKERS"] = text;
    EXPECT_THAT(ErrorOf({}), HasSubstr("environment variable TUNEFARM_COMPILE_WORKERS")) << text;
    environment_.erase("TUNEFARM_COMPILE_WORKERS");
    EXPECT_THAT(FileError(std::string("compile_workers = ") + text + "\n"), HasSubstr("tunefarmd.toml:1:")) << text;
  }
}

TEST_F(DaemonConfigTest, Defaults) {
  const auto config = Parse({});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->data_directory, directory_.File("data/tunefarm"));
  EXPECT_EQ(config->listen, "");
  EXPECT_EQ(config->log_level, "info");
  EXPECT_EQ(config->idle_exit_seconds, 0);
  EXPECT_TRUE(config->use_gpu);
  EXPECT_EQ(config->host_compiler, "c++");
}

TEST_F(DaemonConfigTest, TheFileYieldsToTheEnvironmentAndThatToFlags) {
  const std::string file = File("compile_workers = 1\nlaunch_timeout_ms = 100\nhost_compiler = \"from-file\"\n");
  environment_["TUNEFARM_COMPILE_WORKERS"] = "2";
  environment_["TUNEFARM_LAUNCH_TIMEOUT_MS"] = "200";
  const auto config = Parse({"--config", file, "--compile-workers", "3"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->compile_workers, 3);
  EXPECT_EQ(config->launch_timeout_ms, 200);
  EXPECT_EQ(config->host_compiler, "from-file");
}

TEST_F(DaemonConfigTest, AFlagWinsEvenWithItsDefault) {
  const std::string file = File("use_gpu = false\ncompile_workers = 4\nlog_json = true\n");
  const auto config = Parse({"--config", file, "--gpu", "--compile-workers", "0"});
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config->use_gpu);
  EXPECT_EQ(config->compile_workers, 0);
  EXPECT_TRUE(config->log_json);
  EXPECT_FALSE(Parse({"--no-gpu"})->use_gpu);
}

TEST_F(DaemonConfigTest, TheUsersFileIsFoundAndOneThatIsNamedMustExist) {
  TUNEFARM_CHECK_OK(MakeDirectories(directory_.File("config/tunefarm"), 0700));
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("config/tunefarm/tunefarmd.toml"), "idle_exit_seconds = 9\n"));
  EXPECT_EQ(Parse({})->idle_exit_seconds, 9);
  const auto missing = Parse({"--config", directory_.File("missing.toml")});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MessageOf(missing.status())), HasSubstr("missing.toml"));
}

TEST_F(DaemonConfigTest, AnEmptyVariableCountsAsUnset) {
  environment_["TUNEFARM_COMPILE_WORKERS"] = "";
  environment_["TUNEFARM_DATA_DIR"] = "";
  EXPECT_EQ(Parse({})->compile_workers, 0);
  EXPECT_EQ(Parse({})->data_directory, directory_.File("data/tunefarm"));
}

TEST_F(DaemonConfigTest, DataDirectory) {
  EXPECT_EQ(Parse({"--data-dir", "/a/b/"})->data_directory, "/a/b");
  environment_["TUNEFARM_DATA_DIR"] = "/from/environment";
  EXPECT_EQ(Parse({})->data_directory, "/from/environment");
  EXPECT_EQ(Parse({"--data-dir", "/a"})->data_directory, "/a");
  EXPECT_EQ(Parse({"--config", File("data_dir = \"/from/file\"\n")})->data_directory, "/from/environment");
  environment_.erase("TUNEFARM_DATA_DIR");
  EXPECT_EQ(Parse({"--config", File("data_dir = \"/from/file\"\n")})->data_directory, "/from/file");
}

TEST_F(DaemonConfigTest, FileErrorsHaveAPlace) {
  EXPECT_THAT(FileError("log_level = \"info\"\nlisten_on = \"x\"\n"),
              AllOf(HasSubstr("tunefarmd.toml:2:1: unknown key 'listen_on'"), HasSubstr("did you mean 'listen'")));
  EXPECT_THAT(FileError("zzz = 1\n"), AllOf(HasSubstr("unknown key 'zzz'"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(FileError("\ncompile_workers = \"many\"\n"),
              HasSubstr("tunefarmd.toml:2:1: compile_workers must be a whole number"));
  EXPECT_THAT(FileError("compile_workers = 1.5\n"), HasSubstr("must be a whole number"));
  EXPECT_THAT(FileError("use_gpu = 1\n"), HasSubstr("tunefarmd.toml:1:1: use_gpu must be true or false"));
  EXPECT_THAT(FileError("listen = true\n"), HasSubstr("listen must be a string"));
  EXPECT_THAT(FileError("compile_workers = 1025\n"), HasSubstr("is 1025, but must be from 0 to 1024"));
  EXPECT_THAT(FileError("launch_timeout_ms = 9\n"), HasSubstr("is 9, but must be from 10 to 3600000"));
  EXPECT_THAT(FileError("worker_uid_base = 0\n"), HasSubstr("from 1 to 4000000000"));
  EXPECT_THAT(FileError("store_connections = 1\n"), HasSubstr("is 1, but must be from 2 to 200"));
  EXPECT_THAT(FileError("log_level = \n"), HasSubstr("tunefarmd.toml:1:"));
  EXPECT_THAT(FileError("log_level = \"info\"\nlog_level = \"info\"\n"), HasSubstr("tunefarmd.toml:2:"));
}

TEST_F(DaemonConfigTest, EnvironmentErrorsNameTheVariable) {
  environment_["TUNEFARM_COMPILE_WORKERS"] = "two";
  EXPECT_THAT(ErrorOf({}), HasSubstr("environment variable TUNEFARM_COMPILE_WORKERS: 'two' is not a whole number"));
  environment_.clear();
  environment_["HOME"] = directory_.path();
  environment_["TUNEFARM_USE_GPU"] = "maybe";
  EXPECT_THAT(ErrorOf({}), HasSubstr("TUNEFARM_USE_GPU: 'maybe' is not true or false"));
  for (const char* text : {"0", "false", "no", "off"}) {
    environment_["TUNEFARM_USE_GPU"] = text;
    EXPECT_FALSE(Parse({})->use_gpu) << text;
  }
  for (const char* text : {"1", "true", "yes", "on"}) {
    environment_["TUNEFARM_USE_GPU"] = text;
    EXPECT_TRUE(Parse({})->use_gpu) << text;
  }
}

TEST_F(DaemonConfigTest, FlagErrorsNameTheFlag) {
  EXPECT_THAT(ErrorOf({"--compile-workers", "-1"}), StartsWith("--compile-workers: "));
  EXPECT_THAT(ErrorOf({"--compile-workers", "1x"}), HasSubstr("'1x' is not a whole number"));
  EXPECT_THAT(ErrorOf({"--idle-exit", "99999999999999999999"}), HasSubstr("is not a whole number"));
  EXPECT_THAT(ErrorOf({"--no-such-flag"}), AllOf(HasSubstr("--no-such-flag"), HasSubstr("tunefarmd --help")));
  EXPECT_THAT(ErrorOf({"word"}), HasSubstr("word"));
}

TEST_F(DaemonConfigTest, OnlyKnownLevelsOfIsolationCanBeRequired) {
  EXPECT_EQ(Parse({})->required_isolation, "");
  EXPECT_EQ(Parse({"--required-isolation", "L1"})->required_isolation, "L1");
  EXPECT_THAT(ErrorOf({"--required-isolation", "full"}), AllOf(HasSubstr("'full'"), HasSubstr("write L1")));
}

TEST_F(DaemonConfigTest, AnInterpreterIsAFileByItsWholeName) {
  EXPECT_EQ(Parse({})->python_interpreter, "");
  EXPECT_EQ(Parse({"--python-interpreter", "/bin/sh"})->python_interpreter, "/bin/sh");
  EXPECT_THAT(ErrorOf({"--python-interpreter", "python3"}), HasSubstr("'python3' is no absolute path"));
  EXPECT_THAT(ErrorOf({"--python-interpreter", "/no/such/python3"}), HasSubstr("/no/such/python3 is no file"));
}

TEST_F(DaemonConfigTest, OnlyLoopbackIsServedInPlainText) {
  for (const char* good : {"127.0.0.1:7070", "localhost:0", "[::1]:7070"}) {
    EXPECT_EQ(Parse({"--listen", good})->listen, good);
  }
  for (const char* bad : {"0.0.0.0:7070", "192.168.1.2:7070", "[::]:7070", "127.0.0.1.evil.example:1", ":7070"}) {
    const auto config = Parse({"--listen", bad});
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(ReasonOf(config.status()), "PLAINTEXT_REFUSED") << bad;
    EXPECT_THAT(std::string(MessageOf(config.status())), AllOf(HasSubstr(bad), HasSubstr("loopback")));
  }
  for (const char* bad : {"127.0.0.1", "127.0.0.1:", "7070"})
    EXPECT_THAT(ErrorOf({"--listen", bad}), HasSubstr("port"));
}

TEST_F(DaemonConfigTest, OtherAddressesNeedTlsOrTheWordInsecure) {
  const std::vector<std::string> tls = {"--listen", "0.0.0.0:7070", "--tls-certificate", "c.pem", "--tls-key", "c.key"};
  EXPECT_EQ(Parse(tls)->listen, "0.0.0.0:7070");
  EXPECT_FALSE(Parse(tls)->insecure_plaintext);
  EXPECT_TRUE(Parse({"--listen", "0.0.0.0:7070", "--insecure"})->insecure_plaintext);
  EXPECT_THAT(ErrorOf({"--listen", "0.0.0.0:7070"}), AllOf(HasSubstr("tls_certificate"), HasSubstr("--insecure")));
  EXPECT_THAT(ErrorOf({"--tls-certificate", "c.pem"}), HasSubstr("tls_certificate is set without tls_key"));
  EXPECT_THAT(ErrorOf({"--tls-key", "c.key"}), HasSubstr("tls_key is set without tls_certificate"));
  EXPECT_THAT(ErrorOf({"--tls-client-ca", "ca.pem"}), HasSubstr("tls_client_ca is set without"));
  std::vector<std::string> both = tls;
  both.emplace_back("--insecure");
  EXPECT_THAT(ErrorOf(both), HasSubstr("choose one of them"));
  // TLS does not open the pages for monitoring.
  std::vector<std::string> pages = tls;
  pages.insert(pages.end(), {"--http-listen", "0.0.0.0:7071"});
  EXPECT_EQ(ReasonOf(Parse(pages).status()), "PLAINTEXT_REFUSED");
}

TEST_F(DaemonConfigTest, PagesForMonitoringAreServedOnLoopbackOnly) {
  EXPECT_EQ(Parse({"--http-listen", "127.0.0.1:0"})->http_listen, "127.0.0.1:0");
  EXPECT_EQ(Parse({})->http_listen, "");
  EXPECT_EQ(ReasonOf(Parse({"--http-listen", "0.0.0.0:7071"}).status()), "PLAINTEXT_REFUSED");
  EXPECT_THAT(ErrorOf({"--http-listen", "localhost"}), AllOf(HasSubstr("http_listen"), HasSubstr("port")));
}

TEST_F(DaemonConfigTest, TheDashboardNeedsTlsWhereOthersReachIt) {
  EXPECT_EQ(Parse({"--dashboard-listen", "127.0.0.1:7072"})->dashboard_listen, "127.0.0.1:7072");
  EXPECT_EQ(Parse({})->dashboard_listen, "");
  EXPECT_EQ(ReasonOf(Parse({"--dashboard-listen", "0.0.0.0:7072"}).status()), "PLAINTEXT_REFUSED");
  // The word insecure is for agents and clients in a closed network; a browser's session is a person's.
  EXPECT_EQ(ReasonOf(Parse({"--dashboard-listen", "0.0.0.0:7072", "--insecure"}).status()), "PLAINTEXT_REFUSED");
  EXPECT_TRUE(Parse({"--dashboard-listen", "0.0.0.0:7072", "--tls-certificate", "c.pem", "--tls-key", "c.key"}).ok());
  EXPECT_THAT(ErrorOf({"--dashboard-listen", "localhost"}), AllOf(HasSubstr("dashboard_listen"), HasSubstr("port")));
  EXPECT_THAT(ErrorOf({"--role", "agent", "--control", "127.0.0.1:7070", "--dashboard-listen", "127.0.0.1:7072"}),
              HasSubstr("an agent has no dashboard"));
  EXPECT_EQ(Parse({"--dashboard-hosts", "tune.example,farm-1"})->dashboard_hosts, "tune.example,farm-1");
  for (const char* const host : {"tune.example:80", "https://tune.example", "Tune.example", "a b"}) {
    EXPECT_THAT(ErrorOf({"--dashboard-hosts", host}), HasSubstr("is no name of a host")) << host;
  }
}

TEST_F(DaemonConfigTest, BoundsHaveBounds) {
  EXPECT_THAT(ErrorOf({"--max-database-bytes", "1000"}), HasSubstr("max_database_bytes is 1000, but must be from"));
  EXPECT_THAT(ErrorOf({"--log-files", "0"}), HasSubstr("log_files is 0"));
  EXPECT_THAT(ErrorOf({"--max-active-jobs", "0"}), HasSubstr("max_active_jobs is 0"));
  EXPECT_EQ(Parse({"--min-free-disk-bytes", "0"})->min_free_disk_bytes, 0);
  EXPECT_THAT(ErrorOf({"--max-data-file-bytes", "0"}), HasSubstr("max_data_file_bytes is 0, but must be from 1048576"));
  EXPECT_EQ(Parse({})->max_data_file_bytes, int64_t{32} << 30);
  EXPECT_EQ(Parse({"--max-remote-cache-bytes", "0"})->max_remote_cache_bytes, 0);
  EXPECT_EQ(Parse({})->max_remote_cache_bytes, int64_t{4} << 30);
}

TEST_F(DaemonConfigTest, TheExampleIsTheDefaults) {
  const std::string example = ExampleDaemonConfig();
  EXPECT_EQ(MessageOf(Parse({"--print-example-config"}).status()), example);
  // As it is: only comments.
  EXPECT_TRUE(Parse({"--config", File(example)}).ok());
  // With every key uncommented.
  std::string active;
  size_t keys = 0;
  size_t start = 0;
  while (start < example.size()) {
    const size_t end = example.find('\n', start);
    std::string line = example.substr(start, end - start);
    if (line.size() > 1 && line[0] == '#' && line[1] != ' ') {
      line.erase(0, 1);
      ++keys;
    }
    active += line + "\n";
    start = end + 1;
  }
  EXPECT_GE(keys, 22u);
  const auto parsed = Parse({"--config", File(active)});
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const auto defaults = Parse({});
  EXPECT_EQ(parsed->data_directory, defaults->data_directory);
  EXPECT_EQ(parsed->worker_path, defaults->worker_path);
  EXPECT_EQ(parsed->listen, defaults->listen);
  EXPECT_EQ(parsed->log_level, defaults->log_level);
  EXPECT_EQ(parsed->log_json, defaults->log_json);
  EXPECT_EQ(parsed->idle_exit_seconds, defaults->idle_exit_seconds);
  EXPECT_EQ(parsed->cuda_path, defaults->cuda_path);
  EXPECT_EQ(parsed->host_compiler, defaults->host_compiler);
  EXPECT_EQ(parsed->use_gpu, defaults->use_gpu);
  EXPECT_EQ(parsed->compile_workers, defaults->compile_workers);
  EXPECT_EQ(parsed->compile_timeout_ms, defaults->compile_timeout_ms);
  EXPECT_EQ(parsed->launch_timeout_ms, defaults->launch_timeout_ms);
  EXPECT_EQ(parsed->worker_uid_base, defaults->worker_uid_base);
  EXPECT_EQ(parsed->http_listen, defaults->http_listen);
  EXPECT_EQ(parsed->max_active_jobs, defaults->max_active_jobs);
  EXPECT_EQ(parsed->max_database_bytes, defaults->max_database_bytes);
  EXPECT_EQ(parsed->min_free_disk_bytes, defaults->min_free_disk_bytes);
  EXPECT_EQ(parsed->keep_logs_days, defaults->keep_logs_days);
  EXPECT_EQ(parsed->keep_jobs_days, defaults->keep_jobs_days);
  EXPECT_EQ(parsed->log_file, defaults->log_file);
  EXPECT_EQ(parsed->log_file_max_bytes, defaults->log_file_max_bytes);
  EXPECT_EQ(parsed->log_files, defaults->log_files);
}

TEST_F(DaemonConfigTest, HelpAndVersionAreTextToPrint) {
  const auto help = Parse({"--help"});
  EXPECT_EQ(help.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(MessageOf(help.status())), AllOf(HasSubstr("--data-dir"), HasSubstr("--idle-exit")));
  EXPECT_THAT(std::string(MessageOf(Parse({"--version"}).status())), StartsWith("tunefarmd "));
}

TEST_F(DaemonConfigTest, HelpIsGroupedAndFitsTheScreen) {
  const std::string help(MessageOf(Parse({"--help"}).status()));
  // Every setting has a group.
  EXPECT_EQ(help.find("\nOther:\n"), std::string::npos) << help;
  EXPECT_LT(help.find("\nConnections:\n"), help.find("  --listen VALUE"));
  EXPECT_LT(help.find("\nFarms:\n"), help.find("  --role VALUE"));
  EXPECT_NE(help.find("--no-compile-only"), std::string::npos);
  EXPECT_NE(help.find("\nExamples:\n"), std::string::npos);
  for (const size_t columns : {100, 80, 64}) {
    std::istringstream lines(std::string(MessageOf(ParseDaemonConfig(
                                                       {"--help"}, [](const char*) { return std::nullopt; }, columns)
                                                       .status())));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), columns) << line;
  }
}

TEST_F(DaemonConfigTest, TheStoreIsAPostgresUrlAndNeverShown) {
  EXPECT_EQ(Parse({})->store, "");
  environment_["TUNEFARM_STORE"] = "postgres://tunefarm:s3cret@db.example/farm?sslmode=verify-full";
  const auto config = Parse({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->store, environment_["TUNEFARM_STORE"]);
  EXPECT_EQ(config->max_database_bytes, 0) << "its server bounds it";
  for (const char* bad : {"mysql://u:s3cret@h/d", "/var/lib/s3cret.db", "postgres://u:s3cret@h/d?no_such_option=1"}) {
    EXPECT_THAT(ErrorOf({"--store", bad}), AllOf(HasSubstr("postgres://USER@HOST"), testing::Not(HasSubstr("s3cret"))));
  }
}

}  // namespace
}  // namespace tunefarm
