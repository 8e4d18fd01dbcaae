// A connection to the server of a fleet: streams of NATS JetStream, and messages on subjects. Sealing and opening of
// messages is the callers' (message.h). A Bus may be used from several threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/fleet/access.h"
#include "tcc/support/result.h"

namespace tcc::fleet {

// Whether this build has a client of NATS.
bool fleet_available();

struct StreamSpec {
  std::string name;
  std::vector<std::string> subjects;
  bool work_queue = false;        // a message goes to one consumer, and is gone when it is acknowledged
  bool latest_only = false;       // keeps the last message of a subject
  bool in_memory = false;         // else in files
  bool refuse_when_full = false;  // else the oldest goes
  double max_age = 0;             // seconds; 0: forever
  double duplicates = 120;        // seconds in which a message id counts once
  int64_t max_messages = -1, max_bytes = -1;
};
struct ConsumerSpec {
  std::string stream, name, subject;
  double ack_wait = 10;      // seconds without an acknowledgement, then the message goes to another
  int64_t max_deliver = -1;  // deliveries of one message
  int64_t max_ack_pending = 4096;
};
struct StreamState {
  int64_t messages = 0, bytes = 0;
};
struct ConsumerState {
  int64_t waiting = 0, in_work = 0, redelivered = 0;  // messages
  int64_t pulls = 0;                                  // requests for a message that wait for one
};

class Delivery {
 public:
  virtual ~Delivery() = default;
  virtual std::string_view data() const = 0;
  virtual std::string subject() const = 0;
  virtual int64_t deliveries() const = 0;        // 1: the first
  virtual int64_t pending() const = 0;           // messages of the consumer behind it
  virtual int64_t unix_nanoseconds() const = 0;  // when the server stored it, by its clock
  virtual void acknowledge() = 0;
  virtual void in_progress() = 0;            // begins ack_wait anew
  virtual void give_back(double delay) = 0;  // seconds until another gets it
};

class Inbox {
 public:
  virtual ~Inbox() = default;
  // nullptr: nothing came within the time. Errors (environment): the connection is lost for good, the consumer is gone.
  virtual Result<std::unique_ptr<Delivery>> next(double seconds) = 0;
};

class Bus {
 public:
  // Errors (environment), each with its remedy: no server there, credentials refused, TLS (certificate, name), no
  // JetStream; this build has no client of NATS. `name` is shown by the server.
  static Result<std::shared_ptr<Bus>> connect(const Access& access, const std::string& name);
  virtual ~Bus() = default;

  virtual bool connected() const = 0;
  // Times the connection was lost and found again.
  virtual int64_t reconnects() const = 0;
  virtual Result<void> ensure_stream(const StreamSpec& spec) = 0;
  virtual Result<void> ensure_consumer(const ConsumerSpec& spec) = 0;
  virtual Result<std::optional<StreamState>> stream_state(const std::string& stream) = 0;
  virtual Result<std::optional<ConsumerState>> consumer_state(const std::string& stream, const std::string& name) = 0;
  virtual Result<std::vector<std::string>> stream_names() = 0;

  // Stores a message, waiting for the server's word. `id`: see StreamSpec::duplicates; "": none. `only_first`: an error
  // kInput where the subject has a message already. Errors (environment): the store is full, no stream takes it.
  virtual Result<void> store(const std::string& subject, std::string_view data, const std::string& id,
                             bool only_first = false) = 0;
  // The same without waiting: `stored` is called from another thread with "" or what was wrong.
  virtual Result<void> store_later(const std::string& subject, std::string_view data, const std::string& id,
                                   std::function<void(const std::string& error)> stored) = 0;
  // The last message of a subject; nullptr: none.
  virtual Result<std::unique_ptr<Delivery>> last(const std::string& stream, const std::string& subject) = 0;

  // Takes jobs from a consumer of a work queue.
  virtual Result<std::unique_ptr<Inbox>> pull(const std::string& stream, const std::string& consumer,
                                              const std::string& subject) = 0;
  // Everything that a stream has of a subject and gets from now on, in order; `latest`: of each subject the last only.
  virtual Result<std::unique_ptr<Inbox>> follow(const std::string& stream, const std::string& subject,
                                                bool latest = false) = 0;
  // Messages that are not stored.
  virtual Result<void> tell(const std::string& subject, std::string_view data) = 0;
  virtual Result<std::unique_ptr<Inbox>> listen(const std::string& subject) = 0;
};

}  // namespace tcc::fleet
