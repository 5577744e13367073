#include "server/http/http_server.h"

#include <fmt/core.h>
#include <httplib.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/thread.h"

namespace tunefarm {
namespace {

constexpr int kThreads = 2;
constexpr size_t kWaitingMax = 32;
constexpr size_t kRequestBytesMax = 8 * 1024;
constexpr int kIdleSeconds = 2;

// The library's own queue has no bound, and a connection once taken costs the daemon a descriptor: when it is full, the
// thread that accepts waits.
class BoundedQueue : public httplib::TaskQueue {
 public:
  BoundedQueue() {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back("http", [this] { Serve(); });
  }

  void enqueue(std::function<void()> task) override LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (tasks_.size() >= kWaitingMax && !closing_) room_.Wait(&mutex_);
    tasks_.push_back(std::move(task));
    work_.NotifyOne();
  }

  // Waiting tasks still run: they close their connections, which is all that they do once the server has stopped.
  void shutdown() override LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      closing_ = true;
      work_.NotifyAll();
      room_.NotifyAll();
    }
    for (Thread& thread : threads_) thread.Join();
  }

 private:
  void Serve() LOCKS_EXCLUDED(mutex_) {
    while (true) {
      std::function<void()> task;
      {
        MutexLock lock(&mutex_);
        while (tasks_.empty() && !closing_) work_.Wait(&mutex_);
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
        room_.NotifyOne();
      }
      task();
    }
  }

  Mutex mutex_;
  CondVar work_;
  CondVar room_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  std::vector<Thread> threads_;
};

bool NamesLoopback(const std::string& host_header) {
  const size_t bracket = host_header.find(']');
  const size_t colon = host_header.find(':', bracket == std::string::npos ? 0 : bracket);
  const std::string host = host_header.substr(0, colon);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

// SO_REUSEADDR only: the library's default, SO_REUSEPORT, would let two daemons share one port.
void SetSocketOptions(socket_t socket) {
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

}  // namespace

struct HttpServer::Impl {
  httplib::Server server;
  std::string address;
  Thread accepting;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options) {
  auto impl = std::make_unique<Impl>();
  httplib::Server& server = impl->server;
  server.new_task_queue = [] { return new BoundedQueue; };
  server.set_socket_options(SetSocketOptions);
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(kIdleSeconds);
  server.set_read_timeout(kIdleSeconds);
  server.set_write_timeout(kIdleSeconds);
  server.set_payload_max_length(kRequestBytesMax);
  server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    if (NamesLoopback(request.get_header_value("Host"))) return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    response.set_content("this server answers to 127.0.0.1, localhost and [::1] only\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  for (auto& [path, page] : options.pages) {
    server.Get(path, [page = std::move(page)](const httplib::Request&, httplib::Response& response) {
      HttpAnswer answer = page();
      response.status = answer.status;
      response.set_content(std::move(answer.body), answer.content_type.c_str());
    });
  }
  errno = 0;
  const int port = options.port == 0 ? server.bind_to_any_port(options.host)
                                     : (server.bind_to_port(options.host, options.port) ? options.port : -1);
  if (port <= 0) {
    const int error = errno;
    return Unavailable("cannot listen for HTTP on {}:{}: {}", options.host, options.port,
                       error == 0 ? "it is in use" : MessageOf(ErrnoStatus(error, "binding")));
  }
  const bool is_v6 = options.host.find(':') != std::string::npos;
  impl->address = fmt::format("http://{}:{}", is_v6 ? "[" + options.host + "]" : options.host, port);
  impl->accepting = Thread("http-accept", [raw = impl.get()] { raw->server.listen_after_bind(); });
  // A stop before the loop has begun would be lost, and the library tells of its beginning in no other way.
  while (!server.is_running()) Notification().WaitFor(std::chrono::milliseconds(1));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() {
  impl_->server.stop();
  impl_->accepting.Join();
}

const std::string& HttpServer::address() const { return impl_->address; }

}  // namespace tunefarm
