// The client of NATS behind Bus. Each call that can fail says which object of the server it was about.
#ifdef TCC_WITH_NATS

#include <nats/nats.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "tcc/fleet/bus.h"
#include "tcc/fleet/message.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::fleet {
namespace {

constexpr int64_t kFlushMilliseconds = 5000;
constexpr int64_t kReconnectMilliseconds = 200;
constexpr int kNatsBufferBytes = 32 << 20;   // of messages that wait for a server that is gone for a moment
constexpr int kNatsPendingMessages = 65536;  // that arrived and were not looked at
constexpr int64_t kInFlight = 4096;

int64_t nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

template <class T, void (*destroy)(T*)>
struct Destroy {
  void operator()(T* object) const { destroy(object); }
};
template <class T, void (*destroy)(T*)>
using Owned = std::unique_ptr<T, Destroy<T, destroy>>;

// A library error as a sentence about `what`, with the remedy where one is known.
tl::unexpected<Error> failure(natsStatus status, jsErrCode code, const std::string& what) {
  if (status == NATS_NO_RESPONDERS || code == JSNotEnabledErr || code == JSNotEnabledForAccountErr)
    return make_error(ErrorClass::kEnvironment, what + ": expected a NATS server with JetStream, found one without it",
                      "start it with -js and a folder (-sd), or by `tcc fleet serve`");
  if (code == JSMemoryResourcesExceededErr || code == JSStorageResourcesExceededErr ||
      code == JSInsufficientResourcesErr || code == JSNoLimitsErr)
    return make_error(ErrorClass::kEnvironment, what + ": the store of the NATS server is full",
                      "free disk space there, or raise its limits (jetstream { max_file_store })");
  if (code == JSStreamStoreFailedErr)
    return make_error(ErrorClass::kEnvironment, what + ": its stream on the NATS server is full",
                      "drain the fleet, or remove the stream's messages");
  const char* detail = nats_GetLastError(nullptr);
  std::string text = natsStatus_GetText(status);
  if (detail != nullptr && detail[0] != '\0') text += std::string(": ") + detail;
  if (status == NATS_NOT_PERMITTED || text.find("ermissions Violation") != std::string::npos)
    return make_error(ErrorClass::kEnvironment, what + ": the NATS server does not permit it to this user",
                      "use the secrets of the role: tuner, worker or viewer; see docs/fleet.md");
  if (status == NATS_TIMEOUT)
    return make_error(ErrorClass::kEnvironment, what + ": the NATS server did not answer in time",
                      "it may be overloaded, or the user of these secrets may lack the permission");
  return make_error(ErrorClass::kEnvironment, fmt::format("{}: {}", what, sanitize(text, 300)));
}

class NatsDelivery : public Delivery {
 public:
  explicit NatsDelivery(natsMsg* message) : message_(message) {
    jsMsgMetaData* meta = nullptr;
    if (natsMsg_GetMetaData(&meta, message) == NATS_OK) {
      deliveries_ = static_cast<int64_t>(meta->NumDelivered);
      pending_ = static_cast<int64_t>(meta->NumPending);
      time_ = meta->Timestamp;
      jsMsgMetaData_Destroy(meta);
    } else {
      time_ = natsMsg_GetTime(message);
    }
  }
  std::string_view data() const override {
    return {natsMsg_GetData(message_.get()), static_cast<size_t>(natsMsg_GetDataLength(message_.get()))};
  }
  std::string subject() const override { return natsMsg_GetSubject(message_.get()); }
  int64_t deliveries() const override { return deliveries_; }
  int64_t pending() const override { return pending_; }
  int64_t unix_nanoseconds() const override { return time_; }
  // A lost acknowledgement means one more delivery, which changes nothing.
  void acknowledge() override { natsMsg_Ack(message_.get(), nullptr); }
  void in_progress() override { natsMsg_InProgress(message_.get(), nullptr); }
  void give_back(double delay) override {
    natsMsg_NakWithDelay(message_.get(), static_cast<int64_t>(delay * 1e3), nullptr);
  }

 private:
  Owned<natsMsg, natsMsg_Destroy> message_;
  int64_t deliveries_ = 1, pending_ = 0, time_ = 0;
};

class NatsInbox : public Inbox {
 public:
  NatsInbox(std::shared_ptr<natsConnection> connection, natsSubscription* subscription, bool pulls, std::string what)
      : connection_(std::move(connection)), subscription_(subscription), pulls_(pulls), what_(std::move(what)) {}
  ~NatsInbox() override { natsSubscription_Unsubscribe(subscription_.get()); }

  Result<std::unique_ptr<Delivery>> next(double seconds) override {
    const auto wait = std::max<int64_t>(static_cast<int64_t>(seconds * 1e3), 1);
    natsMsg* message = nullptr;
    natsStatus status = NATS_OK;
    jsErrCode code{};
    if (pulls_) {
      natsMsgList list{};
      status = natsSubscription_Fetch(&list, subscription_.get(), 1, wait, &code);
      if (status == NATS_OK && list.Count > 0) std::swap(message, list.Msgs[0]);
      natsMsgList_Destroy(&list);
    } else {
      status = natsSubscription_NextMsg(&message, subscription_.get(), wait);
    }
    if (status == NATS_OK && message != nullptr) return std::make_unique<NatsDelivery>(message);
    if (status == NATS_OK || status == NATS_TIMEOUT || status == NATS_MISSED_HEARTBEAT || status == NATS_MISMATCH)
      return nullptr;
    if (natsConnection_IsClosed(connection_.get())) return failure(status, code, what_);
    if (status == NATS_INVALID_SUBSCRIPTION || status == NATS_NOT_FOUND) return failure(status, code, what_);
    // The library connects again.
    nats_Sleep(std::min<int64_t>(wait, 50));
    return nullptr;
  }

 private:
  std::shared_ptr<natsConnection> connection_;
  Owned<natsSubscription, natsSubscription_Destroy> subscription_;
  const bool pulls_;
  const std::string what_;
};

class NatsBus : public Bus {
 public:
  NatsBus(std::shared_ptr<natsConnection> connection, jsCtx* js) : connection_(std::move(connection)), js_(js) {}
  ~NatsBus() override {
    natsConnection_FlushTimeout(connection_.get(), 1000);
    js_.reset();
  }

  bool connected() const override { return natsConnection_Status(connection_.get()) == NATS_CONN_STATUS_CONNECTED; }
  int64_t reconnects() const override {
    natsStatistics* statistics = nullptr;
    uint64_t count = 0;
    if (natsStatistics_Create(&statistics) != NATS_OK) return 0;
    if (natsConnection_GetStats(connection_.get(), statistics) == NATS_OK)
      natsStatistics_GetCounts(statistics, nullptr, nullptr, nullptr, nullptr, &count);
    natsStatistics_Destroy(statistics);
    return static_cast<int64_t>(count);
  }

  Result<void> ensure_stream(const StreamSpec& spec) override {
    const std::string what = fmt::format("stream {}", spec.name);
    jsErrCode code{};
    jsStreamInfo* info = nullptr;
    natsStatus status = js_GetStreamInfo(&info, js_.get(), spec.name.c_str(), nullptr, &code);
    if (info != nullptr) jsStreamInfo_Destroy(info);
    if (status == NATS_OK) return {};
    if (status != NATS_NOT_FOUND) return failure(status, code, what);
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    std::vector<const char*> subjects;
    for (const std::string& s : spec.subjects) subjects.push_back(s.c_str());
    config.Name = spec.name.c_str();
    config.Subjects = subjects.data(), config.SubjectsLen = static_cast<int>(subjects.size());
    config.Retention = spec.work_queue ? js_WorkQueuePolicy : js_LimitsPolicy;
    config.Storage = spec.in_memory ? js_MemoryStorage : js_FileStorage;
    config.Discard = spec.refuse_when_full ? js_DiscardNew : js_DiscardOld;
    config.MaxMsgsPerSubject = spec.latest_only ? 1 : -1;
    config.MaxAge = nanoseconds(spec.max_age);
    config.Duplicates = nanoseconds(spec.max_age > 0 ? std::min(spec.duplicates, spec.max_age) : spec.duplicates);
    config.MaxMsgs = spec.max_messages, config.MaxBytes = spec.max_bytes;
    config.MaxMsgSize = static_cast<int32_t>(kMaxMessageBytes);
    status = js_AddStream(nullptr, js_.get(), &config, nullptr, &code);
    // Another one may have made it meanwhile.
    if (status != NATS_OK && code != JSStreamNameExistErr) return failure(status, code, what);
    return {};
  }

  Result<void> ensure_consumer(const ConsumerSpec& spec) override {
    jsErrCode code{};
    jsConsumerInfo* info = nullptr;
    natsStatus status = js_GetConsumerInfo(&info, js_.get(), spec.stream.c_str(), spec.name.c_str(), nullptr, &code);
    if (info != nullptr) jsConsumerInfo_Destroy(info);
    if (status == NATS_OK) return {};
    jsConsumerConfig config;
    jsConsumerConfig_Init(&config);
    config.Durable = spec.name.c_str(), config.FilterSubject = spec.subject.c_str();
    config.AckPolicy = js_AckExplicit, config.AckWait = nanoseconds(spec.ack_wait);
    config.MaxDeliver = spec.max_deliver, config.MaxAckPending = spec.max_ack_pending;
    config.MaxWaiting = 8192;
    status = js_AddConsumer(nullptr, js_.get(), spec.stream.c_str(), &config, nullptr, &code);
    if (status != NATS_OK) return failure(status, code, fmt::format("consumer {} of {}", spec.name, spec.stream));
    return {};
  }

  Result<std::optional<StreamState>> stream_state(const std::string& stream) override {
    jsErrCode code{};
    jsStreamInfo* info = nullptr;
    const natsStatus status = js_GetStreamInfo(&info, js_.get(), stream.c_str(), nullptr, &code);
    if (status == NATS_NOT_FOUND) return std::optional<StreamState>();
    if (status != NATS_OK) return failure(status, code, fmt::format("stream {}", stream));
    const StreamState state{static_cast<int64_t>(info->State.Msgs), static_cast<int64_t>(info->State.Bytes)};
    jsStreamInfo_Destroy(info);
    return std::optional(state);
  }

  Result<std::optional<ConsumerState>> consumer_state(const std::string& stream, const std::string& name) override {
    jsErrCode code{};
    jsConsumerInfo* info = nullptr;
    const natsStatus status = js_GetConsumerInfo(&info, js_.get(), stream.c_str(), name.c_str(), nullptr, &code);
    if (status == NATS_NOT_FOUND) return std::optional<ConsumerState>();
    if (status != NATS_OK) return failure(status, code, fmt::format("consumer {} of {}", name, stream));
    const ConsumerState state{static_cast<int64_t>(info->NumPending), info->NumAckPending, info->NumRedelivered,
                              info->NumWaiting};
    jsConsumerInfo_Destroy(info);
    return std::optional(state);
  }

  Result<std::vector<std::string>> stream_names() override {
    jsErrCode code{};
    jsStreamNamesList* list = nullptr;
    std::vector<std::string> names;
    const natsStatus status = js_StreamNames(&list, js_.get(), nullptr, &code);
    if (status == NATS_NOT_FOUND) return names;
    if (status != NATS_OK) return failure(status, code, "the list of streams");
    for (int i = 0; i < list->Count; ++i) names.emplace_back(list->List[i]);
    jsStreamNamesList_Destroy(list);
    return names;
  }

  Result<void> store(const std::string& subject, std::string_view data, const std::string& id,
                     bool only_first) override {
    jsPubOptions options;
    jsPubOptions_Init(&options);
    if (!id.empty()) options.MsgId = id.c_str();
    options.ExpectNoMessage = only_first;
    jsErrCode code{};
    const natsStatus status =
        js_Publish(nullptr, js_.get(), subject.c_str(), data.data(), static_cast<int>(data.size()), &options, &code);
    if (status == NATS_OK) return {};
    if (only_first && code == JSStreamWrongLastSequenceErr)
      return make_error(ErrorClass::kInput, fmt::format("{} has a message already", subject));
    return failure(status, code, fmt::format("message for {}", subject));
  }

  Result<void> store_later(const std::string& subject, std::string_view data, const std::string& id,
                           std::function<void(const std::string&)> stored) override {
    natsMsg* message = nullptr;
    natsStatus status = natsMsg_Create(&message, subject.c_str(), nullptr, data.data(), static_cast<int>(data.size()));
    if (status != NATS_OK) return failure(status, {}, fmt::format("message for {}", subject));
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MsgId = id.c_str();
    options.MaxWait = kFlushMilliseconds;
    // The library gives the message back with the server's word; the callback is found by the message's id.
    {
      std::lock_guard lock(waiting_->mutex);
      waiting_->callbacks[id] = std::move(stored);
    }
    status = js_PublishMsgAsync(js_.get(), &message, &options);
    if (message != nullptr) natsMsg_Destroy(message);
    if (status == NATS_OK) return {};
    {
      std::lock_guard lock(waiting_->mutex);
      waiting_->callbacks.erase(id);
    }
    return failure(status, {}, fmt::format("message for {}", subject));
  }

  Result<std::unique_ptr<Delivery>> last(const std::string& stream, const std::string& subject) override {
    natsMsg* message = nullptr;
    jsErrCode code{};
    const natsStatus status = js_GetLastMsg(&message, js_.get(), stream.c_str(), subject.c_str(), nullptr, &code);
    if (status == NATS_NOT_FOUND) return nullptr;
    if (status != NATS_OK) return failure(status, code, fmt::format("last message of {} in {}", subject, stream));
    return std::make_unique<NatsDelivery>(message);
  }

  Result<std::unique_ptr<Inbox>> pull(const std::string& stream, const std::string& consumer,
                                      const std::string& subject) override {
    jsSubOptions options;
    jsSubOptions_Init(&options);
    options.Stream = stream.c_str(), options.Consumer = consumer.c_str();
    natsSubscription* subscription = nullptr;
    jsErrCode code{};
    const natsStatus status =
        js_PullSubscribe(&subscription, js_.get(), subject.c_str(), consumer.c_str(), nullptr, &options, &code);
    const std::string what = fmt::format("consumer {} of {}", consumer, stream);
    if (status != NATS_OK) return failure(status, code, what);
    return std::make_unique<NatsInbox>(connection_, subscription, true, what);
  }

  Result<std::unique_ptr<Inbox>> follow(const std::string& stream, const std::string& subject, bool latest) override {
    jsSubOptions options;
    jsSubOptions_Init(&options);
    options.Stream = stream.c_str(), options.Ordered = true;
    options.Config.DeliverPolicy = latest ? js_DeliverLastPerSubject : js_DeliverAll;
    natsSubscription* subscription = nullptr;
    jsErrCode code{};
    const natsStatus status = js_SubscribeSync(&subscription, js_.get(), subject.c_str(), nullptr, &options, &code);
    const std::string what = fmt::format("{} of {}", subject, stream);
    if (status != NATS_OK) return failure(status, code, what);
    natsSubscription_SetPendingLimits(subscription, kNatsPendingMessages, -1);
    return std::make_unique<NatsInbox>(connection_, subscription, false, what);
  }

  Result<void> tell(const std::string& subject, std::string_view data) override {
    natsStatus status =
        natsConnection_Publish(connection_.get(), subject.c_str(), data.data(), static_cast<int>(data.size()));
    if (status == NATS_OK) status = natsConnection_FlushTimeout(connection_.get(), kFlushMilliseconds);
    if (status != NATS_OK) return failure(status, {}, fmt::format("message for {}", subject));
    return {};
  }

  Result<std::unique_ptr<Inbox>> listen(const std::string& subject) override {
    natsSubscription* subscription = nullptr;
    const natsStatus status = natsConnection_SubscribeSync(&subscription, connection_.get(), subject.c_str());
    if (status != NATS_OK) return failure(status, {}, subject);
    return std::make_unique<NatsInbox>(connection_, subscription, false, subject);
  }

  struct Waiting {
    std::mutex mutex;
    std::map<std::string, std::function<void(const std::string&)>> callbacks;  // by message id
  };
  static void on_stored(jsCtx*, natsMsg* message, jsPubAck* ack, jsPubAckErr* error, void* closure) {
    auto& waiting = *static_cast<Waiting*>(closure);
    const char* id = nullptr;
    natsMsgHeader_Get(message, "Nats-Msg-Id", &id);
    std::function<void(const std::string&)> stored;
    if (id != nullptr) {
      std::lock_guard lock(waiting.mutex);
      if (auto at = waiting.callbacks.find(id); at != waiting.callbacks.end()) {
        stored = std::move(at->second);
        waiting.callbacks.erase(at);
      }
    }
    if (stored) {
      std::string why;
      if (ack == nullptr && error != nullptr)
        why = error->ErrText != nullptr ? sanitize(error->ErrText) : natsStatus_GetText(error->Err);
      stored(ack == nullptr && why.empty() ? "no answer" : why);
    }
    natsMsg_Destroy(message);
  }

  std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
  std::shared_ptr<natsConnection> connection_;
  Owned<jsCtx, jsCtx_Destroy> js_;
};

constexpr const char* kCredentialsHint =
    "it needs the JSON Web Token and the seed of a user, as `nsc generate creds` writes them; see docs/fleet.md";

// The library sends the line below the first heading as the token, whatever it is. A seed must not leave this machine.
Result<void> check_credentials(const std::string& file) {
  TCC_TRY(const std::string text, read_file(file, kMaxSecretsBytes));
  std::istringstream lines(text);
  std::string line, token;
  for (bool below = false; std::getline(lines, line);) {
    while (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    if (below) token = line;
    if (below) break;
    below = line.starts_with("---") && line.ends_with("---");
  }
  if (token.starts_with("eyJ") && std::count(token.begin(), token.end(), '.') == 2) return {};
  return make_error(
      ErrorClass::kInput,
      fmt::format("expected the credentials of a NATS user in '{}', found no token at their beginning", sanitize(file)),
      kCredentialsHint);
}

// The library's own words without the place in its source, as in "(nkeys.c:83): invalid checksum".
std::string last_words() {
  const char* detail = nats_GetLastError(nullptr);
  std::string text = sanitize(detail != nullptr ? detail : "", 300);
  if (text.starts_with('(') && text.find("): ") != std::string::npos) text.erase(0, text.find("): ") + 3);
  return text;
}

tl::unexpected<Error> connect_failure(natsStatus status, const Access& access) {
  const std::string text = last_words();
  const std::string where = fmt::format("the NATS server at {}", sanitize(access.url));
  const bool credentials = status == NATS_CONNECTION_AUTH_FAILED || text.find("uthorization") != std::string::npos ||
                           text.find("uthentication") != std::string::npos;
  if (credentials && !access.credentials_file.empty())
    return make_error(
        ErrorClass::kEnvironment,
        fmt::format("{} refused the user of the credentials in '{}'", where, sanitize(access.credentials_file)),
        "the user's account must be one that the server knows, and the user neither expired nor revoked");
  if (credentials)
    return make_error(ErrorClass::kEnvironment, where + " refused the user or the password",
                      "use the secrets that its configuration names; see docs/fleet.md");
  if (status == NATS_SSL_ERROR || status == NATS_SECURE_CONNECTION_WANTED || status == NATS_SECURE_CONNECTION_REQUIRED)
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("{}: no encrypted connection as expected: {}", where,
                                  text.empty() ? natsStatus_GetText(status) : text),
                      access.tls()
                          ? "its certificate must be signed by an authority of ca_file, for the host of the address"
                          : "write the address as tls://HOST:PORT where the server wants TLS");
  // The library reads these files when it connects. Statuses of the network are others.
  if (status == NATS_ERR && !access.credentials_file.empty())
    return make_error(ErrorClass::kInput,
                      fmt::format("expected the credentials of a NATS user in '{}', found: {}",
                                  sanitize(access.credentials_file), text),
                      kCredentialsHint);
  if (status == NATS_ERR && !access.nkey_seed_file.empty())
    return make_error(
        ErrorClass::kInput,
        fmt::format("expected the seed of an NKey in '{}', found: {}", sanitize(access.nkey_seed_file), text),
        "nkey_seed_file of the secrets must name the file of the seed that belongs to nkey");
  return make_error(ErrorClass::kEnvironment,
                    fmt::format("expected {}, found none: {}", where, text.empty() ? natsStatus_GetText(status) : text),
                    "start it by `tcc fleet serve`, or give the address of a running one with --fleet");
}

Result<void> set_options(natsOptions* o, const Access& access, const std::string& name) {
  natsStatus s = natsOptions_SetURL(o, access.url.c_str());
  const auto set = [&](natsStatus next) { s = s == NATS_OK ? next : s; };
  set(natsOptions_SetName(o, name.c_str()));
  set(natsOptions_SetTimeout(o, kFlushMilliseconds));
  set(natsOptions_SetMaxReconnect(o, -1));
  set(natsOptions_SetReconnectWait(o, kReconnectMilliseconds));
  set(natsOptions_SetReconnectJitter(o, kReconnectMilliseconds / 2, kReconnectMilliseconds / 2));
  set(natsOptions_SetReconnectBufSize(o, kNatsBufferBytes));
  set(natsOptions_SetPingInterval(o, 5000));
  set(natsOptions_SetMaxPingsOut(o, 3));
  set(natsOptions_SetMaxPendingMsgs(o, kNatsPendingMessages));
  // The default prints to standard error.
  set(natsOptions_SetErrorHandler(o, [](natsConnection*, natsSubscription*, natsStatus, void*) {}, nullptr));
  if (!access.user.empty()) set(natsOptions_SetUserInfo(o, access.user.c_str(), access.password.c_str()));
  if (!access.token.empty()) set(natsOptions_SetToken(o, access.token.c_str()));
  if (!access.nkey.empty()) set(natsOptions_SetNKeyFromSeed(o, access.nkey.c_str(), access.nkey_seed_file.c_str()));
  if (!access.credentials_file.empty()) {
    TCC_TRY_VOID(check_credentials(access.credentials_file));
    set(natsOptions_SetUserCredentialsFromFiles(o, access.credentials_file.c_str(), nullptr));
  }
  if (s != NATS_OK) return failure(s, {}, "the options of the connection");
  if (!access.tls()) return {};
  s = natsOptions_SetSecure(o, true);
  if (!access.ca_file.empty()) set(natsOptions_LoadCATrustedCertificates(o, access.ca_file.c_str()));
  if (!access.certificate_file.empty())
    set(natsOptions_LoadCertificatesChain(o, access.certificate_file.c_str(), access.key_file.c_str()));
  set(natsOptions_SetExpectedHostname(o, host_of(access.url).c_str()));
  if (s != NATS_OK)
    return make_error(ErrorClass::kEnvironment,
                      "expected certificates and keys of TLS in PEM files, found ones that cannot be read",
                      "look at ca_file, certificate_file and key_file of the secrets");
  return {};
}

}  // namespace

bool fleet_available() {
  return true;
}

Result<std::shared_ptr<Bus>> Bus::connect(const Access& access, const std::string& name) {
  TCC_TRY_VOID(check_access(access));
  natsOptions* raw = nullptr;
  if (const natsStatus s = natsOptions_Create(&raw); s != NATS_OK) return failure(s, {}, "the client of NATS");
  const Owned<natsOptions, natsOptions_Destroy> options(raw);
  TCC_TRY_VOID(set_options(raw, access, name));
  natsConnection* connection = nullptr;
  if (const natsStatus s = natsConnection_Connect(&connection, raw); s != NATS_OK) return connect_failure(s, access);
  std::shared_ptr<natsConnection> shared(connection, [](natsConnection* c) {
    natsConnection_Close(c);
    natsConnection_Destroy(c);
  });
  auto waiting = std::make_shared<NatsBus::Waiting>();
  jsOptions js_options;
  jsOptions_Init(&js_options);
  js_options.Wait = static_cast<int64_t>(access.patience * 1e3);
  js_options.PublishAsync.MaxPending = kInFlight;
  js_options.PublishAsync.StallWait = kFlushMilliseconds;
  js_options.PublishAsync.AckHandler = &NatsBus::on_stored;
  js_options.PublishAsync.AckHandlerClosure = waiting.get();
  jsCtx* js = nullptr;
  if (const natsStatus s = natsConnection_JetStream(&js, connection, &js_options); s != NATS_OK)
    return failure(s, {}, "JetStream");
  auto bus = std::make_shared<NatsBus>(shared, js);
  bus->waiting_ = std::move(waiting);
  jsAccountInfo* account = nullptr;
  jsErrCode code{};
  const natsStatus s = js_GetAccountInfo(&account, js, nullptr, &code);
  if (account != nullptr) jsAccountInfo_Destroy(account);
  if (s != NATS_OK) return failure(s, code, fmt::format("the NATS server at {}", sanitize(access.url)));
  return bus;
}

}  // namespace tcc::fleet

#endif
