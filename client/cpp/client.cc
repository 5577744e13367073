#include "tunefarm/client/client.h"

#include <utility>

#include "client/cpp/asker.h"
#include "client/cpp/client_impl.h"
#include "client/cpp/job_watch.h"
#include "server/base/socket_paths.h"
#include "server/base/xdg.h"
#include "server/dial/dial.h"

namespace tunefarm::client {
namespace {

// The same rules as those of the command line and of the Python client; nobody is asked.
Result<std::string> AddressOf(const ClientOptions& options) {
  if (!options.server.empty()) return options.server;
  const EnvironmentGetter environment = RealEnvironment();
  const std::string named = environment("TUNEFARM_SERVER").value_or("");
  if (options.data_directory.empty() && !named.empty()) return named;
  const absl::StatusOr<std::string> directory = ChosenDataDirectory(options.data_directory, environment);
  if (!directory.ok()) return FromAbsl(directory.status());
  const absl::StatusOr<SocketPaths> sockets = SocketPathsFor(*directory, environment);
  if (!sockets.ok()) return FromAbsl(sockets.status());
  return "unix:" + sockets->client;
}

// With what the environment names.
DialOptions DialOptionsOf(const ClientOptions& options, const std::string& address) {
  DialOptions dial;
  dial.address = address;
  dial.ca = options.tls_ca;
  dial.certificate = options.tls_certificate;
  dial.key = options.tls_key;
  dial.token = options.token;
  dial.token_file = options.token_file;
  return WithEnvironment(std::move(dial), RealEnvironment());
}

Status CheckOptions(const ClientOptions& options) {
  for (const auto& [name, value] :
       {std::pair{"lookup_timeout", options.lookup_timeout}, std::pair{"timeout", options.timeout},
        std::pair{"reconnect_min", options.reconnect_min}, std::pair{"reconnect_max", options.reconnect_max},
        std::pair{"silence_max", options.silence_max}, std::pair{"refresh_interval", options.refresh_interval}}) {
    if (value.count() <= 0 || value > std::chrono::hours(24)) {
      return {Code::kInvalidArgument,
              std::string(name) + ": " + std::to_string(value.count()) + " ms is not a time above 0 and up to a day",
              "OPTIONS_INVALID"};
    }
  }
  if (options.cached_answers_max == 0 || options.questions_max == 0) {
    return {Code::kInvalidArgument, "cached_answers_max and questions_max must be above 0", "OPTIONS_INVALID"};
  }
  return {};
}

}  // namespace

Client::Client(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<Client> Client::Open(const ClientOptions& options) {
  if (Status checked = CheckOptions(options); !checked.ok()) return checked;
  Result<std::vector<OwnDefault>> defaults = CopyDefaults(options.defaults);
  if (!defaults.ok()) return defaults.status();
  std::optional<snapshot::SnapshotFile> snapshot;
  DialOptions dial;
  std::shared_ptr<grpc::Channel> channel;
  if (!options.snapshot.empty()) {
    auto opened = snapshot::SnapshotFile::Open(options.snapshot);
    if (!opened.ok()) return FromAbsl(opened.status());
    snapshot = *std::move(opened);
  } else {
    Result<std::string> found = AddressOf(options);
    if (!found.ok()) return found.status();
    dial = DialOptionsOf(options, *found);
    auto dialled = Dial(dial, ChannelArgumentsOf(options));
    if (!dialled.ok()) return FromAbsl(dialled.status());
    channel = *std::move(dialled);
  }
  return Client(
      std::make_shared<Impl>(options, std::move(dial), std::move(channel), *std::move(defaults), std::move(snapshot)));
}

Result<Question> Client::Prepare(const QuestionSpec& spec) const {
  Result<std::shared_ptr<QuestionImpl>> question = impl_->Prepare(spec);
  if (!question.ok()) return question.status();
  return Question(*std::move(question));
}

void Client::Close() { impl_->Close(); }

const std::string& Client::address() const { return impl_->address(); }

Question::Question(std::shared_ptr<QuestionImpl> impl) : impl_(std::move(impl)) {}

Reader Question::NewReader() const { return Reader(std::make_unique<ReaderImpl>(impl_)); }

CacheState Question::state() const { return impl_->state(); }

Status Question::WaitForRevision(int64_t revision, std::chrono::milliseconds timeout) const {
  return impl_->WaitForRevision(revision, timeout);
}

namespace {

Duration TimeoutOf(const QuestionImpl& question, const LookupOptions& options) {
  return options.timeout.count() > 0 ? Duration(options.timeout) : question.lookup_timeout;
}

// Null: the callback has been called.
std::shared_ptr<PendingLookup> StartLookup(const std::shared_ptr<QuestionImpl>& question, DimValues values,
                                           const LookupOptions& options, Question::Callback callback) {
  if (values.size != question->dims()) {
    callback(Status{Code::kInvalidArgument,
                    std::to_string(values.size) + " values for " + std::to_string(question->dims()) + " varying dims",
                    "VALUE_COUNT"});
    return nullptr;
  }
  if (!options.refresh || question->is_offline()) {
    if (auto cached = question->FindCached(values.data)) {
      callback(*std::move(cached));
      return nullptr;
    }
  }
  const QuestionKey key(values.data, values.data + values.size);
  if (question->is_offline() || question->is_away()) {
    // Nothing is gained by waiting for a daemon that is known not to answer.
    if (auto own = question->FindDefault(values.data)) {
      question->Request(key);
      callback(*std::move(own));
      return nullptr;
    }
  }
  if (question->is_offline()) {
    auto nothing = std::make_shared<Answer>();
    nothing->source = Source::kSnapshot;
    callback(TimedAnswer{std::move(nothing), std::chrono::nanoseconds(0)});
    return nullptr;
  }
  auto pending = std::make_shared<PendingLookup>(question, key, std::move(callback));
  if (question->Ask(key, TimeoutOf(*question, options), pending)) return pending;
  pending->Finish(Status{Code::kCancelled, "the client was closed", "CLOSED"});
  return nullptr;
}

}  // namespace

Result<TimedAnswer> Question::Lookup(DimValues values, const LookupOptions& options) const {
  struct Shared {
    Notification done;
    std::optional<Result<TimedAnswer>> result;
  };
  auto shared = std::make_shared<Shared>();
  const auto pending = StartLookup(impl_, values, options, [shared](Result<TimedAnswer> result) {
    shared->result = std::move(result);
    shared->done.Notify();
  });
  // Not left to the library's thread, which may have much to do just now.
  if (pending != nullptr && !shared->done.WaitFor(TimeoutOf(*impl_, options)) && pending->Abandon()) {
    if (auto own = impl_->FindDefault(values.data)) return *std::move(own);
    return Status{Code::kDeadlineExceeded, "the daemon has not answered in time", "LOOKUP_TIMEOUT"};
  }
  shared->done.WaitForNotification();
  return *std::move(shared->result);
}

void Question::LookupAsync(DimValues values, const LookupOptions& options, Callback callback) const {
  StartLookup(impl_, values, options, std::move(callback));
}

Reader::Reader(std::unique_ptr<ReaderImpl> impl) : impl_(std::move(impl)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;
const Answer* Reader::Find(DimValues values) { return impl_->Find(values); }
std::chrono::nanoseconds Reader::Age() const { return impl_->Age(); }

}  // namespace tunefarm::client
