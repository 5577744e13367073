#include "client/launch/failure.h"

#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace tunefarm::launch {
namespace {

// Bytes of the message by the caller's version of the structure.
size_t Room(const tunefarm_error* error) {
  const size_t head = offsetof(tunefarm_error, message);
  return error == nullptr || error->size <= head ? 0 : error->size - head;
}

}  // namespace

tunefarm_status Fail(tunefarm_error* error, tunefarm_status status, const char* format, ...) {
  const size_t room = Room(error);
  if (room == 0) return status;
  va_list arguments;
  va_start(arguments, format);
  (void)std::vsnprintf(error->message, room, format, arguments);
  va_end(arguments);
  return status;
}

tunefarm_status Succeed(tunefarm_error* error) {
  if (Room(error) > 0) error->message[0] = '\0';
  return TUNEFARM_OK;
}

}  // namespace tunefarm::launch
