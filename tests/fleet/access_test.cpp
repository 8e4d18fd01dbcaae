// Who may connect, and what each role may do.
#include <sys/stat.h>

#include <cstdlib>

#include "credentials.h"
#include "fixtures.h"
#include "tcc/fleet/message.h"

using namespace tcc;
using namespace tcc::fleet;
using namespace fleet_test;
using Catch::Matchers::Contains;

TEST_CASE("servers that are absent, strange or closed to this user get a message each", "[errors]") {
  NEED_FLEET();
  Server server;
  Access access = server.access("tuner");
  access.url = fmt::format("nats://127.0.0.1:{}", free_port());
  auto bus = Bus::connect(access, "test");
  REQUIRE(!bus);
  CHECK_THAT(bus.error().message, Contains("expected the NATS server at nats://127.0.0.1") && Contains("found none"));
  CHECK_THAT(bus.error().hint, Contains("tcc fleet serve"));

  access = server.access("tuner");
  access.password = "wrong";
  bus = Bus::connect(access, "test");
  REQUIRE(!bus);
  CHECK_THAT(bus.error().message, Contains("refused the user or the password") && !Contains("wrong"));

  access = server.access("tuner");
  access.url = server.url("tls");
  bus = Bus::connect(access, "test");
  REQUIRE(!bus);
  CHECK_THAT(bus.error().message, Contains("no encrypted connection"));

  server.stop();
  server.start({"nats-server", "-a", "127.0.0.1", "-p", std::to_string(server.port())});
  access = server.access("tuner");
  bus = Bus::connect(access, "test");
  REQUIRE(!bus);
  CHECK_THAT(bus.error().message, Contains("expected a NATS server with JetStream"));
  CHECK_THAT(bus.error().hint, Contains("-js"));
}

TEST_CASE("each role may do what it needs, and no more", "[errors]") {
  NEED_FLEET();
  Server server;
  // What is not permitted gets no answer.
  auto tuner = server.connect_as("tuner"), worker = server.connect_as("worker", 1),
       viewer = server.connect_as("viewer", 1);
  REQUIRE(ensure_streams(*tuner));
  CHECK(!ensure_streams(*worker) == false);  // they exist: nothing is made
  CHECK(!worker->ensure_stream({.name = "MINE", .subjects = {"mine"}}));
  CHECK(!worker->store(task_subject("0000000000000000"), "x", ""));
  CHECK(!worker->store(work_subject("a", 0), "x", ""));
  CHECK(worker->store(result_subject("run"), "x", ""));
  CHECK(worker->store(beat_subject("w"), "x", ""));
  CHECK(!viewer->store(beat_subject("w"), "x", ""));
  CHECK(!viewer->store(result_subject("run"), "x", ""));
  CHECK(!viewer->follow(std::string(kResultsStream), "tcc.result.*"));
  CHECK(viewer->follow(std::string(kBeatsStream), "tcc.beat.*", true));
  CHECK(viewer->stream_names());
}

TEST_CASE("a worker without credentials sees nothing", "[errors]") {
  NEED_FLEET();
  Server server;
  Access access;
  access.url = server.url(), access.key = server.access("worker").key;
  const auto bus = Bus::connect(access, "test");
  REQUIRE(!bus);
  CHECK_THAT(bus.error().message, Contains("refused the user or the password"));
}

TEST_CASE("a token or an NKey instead of a user; another one is refused", "[errors]") {
  NEED_FLEET();
  Server server;
  const std::string store = fmt::format("jetstream {{ store_dir: \"{}\" }}\n", server.store_folder());
  Access access;
  access.url = server.url(), access.key = server.access("tuner").key;
  const auto refused = [&] {
    const auto bus = Bus::connect(access, "test");
    REQUIRE(!bus);
    CHECK_THAT(bus.error().message, Contains("refused the user or the password"));
    return bus.error().message + bus.error().hint;
  };
  const auto accepted = [&] {
    const auto bus = Bus::connect(access, "test");
    if (!bus) FAIL(bus.error().message);
    CHECK(ensure_streams(**bus));
  };
  server.stop();
  server.start_with(store + "authorization { token: \"a token of 23 letters !\" }\n");
  refused();
  access.token = "another token";
  CHECK_THAT(refused(), !Contains("another token"));
  access.token = "a token of 23 letters !";
  accepted();

  // Pairs for this test alone.
  access.token.clear();
  const std::string pairs[][2] = {{"UCS3JNOFP3G2U7ICNFQ5TSFPWY3W3CBUU7V7AQR4GLYZB5NQHC66I64M",
                                   "SUAHIY3DEB2GK43UEBZWKZLEEBXWMIDBNYQG423FPEQHK43FOIQDAMNLPQ"},
                                  {"UDGFG6EPSF6PV5S7K45PXG3B4R3HNOQC2AAZJNRKWY3LYBART6MEIT6Z",
                                   "SUAHIY3DEB2GK43UEBZWKZLEEBXWMIDBNYQG423FPEQHK43FOIQDAMWIJQ"}};
  const auto as = [&](int pair) {
    access.nkey = pairs[pair][0], access.nkey_seed_file = server.folder() + "/seed";
    REQUIRE(write_file(access.nkey_seed_file, pairs[pair][1] + "\n"));
  };
  server.stop();
  server.start_with(store + fmt::format("authorization {{ users: [ {{ nkey: {} }} ] }}\n", pairs[0][0]));
  as(1);
  CHECK_THAT(refused(), !Contains("SUAH"));
  as(0);
  accepted();
  access.nkey = pairs[1][0];  // the seed is of another key
  refused();
  as(0);
  access.nkey_seed_file += ".absent";
  const auto absent = Bus::connect(access, "test");
  REQUIRE(!absent);
  CHECK_THAT(absent.error().message, Contains("expected the seed of an NKey in '" + access.nkey_seed_file + "'"));
}

TEST_CASE("credentials of an account's user; others are refused, and the message names the file", "[errors]") {
  NEED_FLEET();
  Server server;
  const TestOperator the_operator;
  server.stop();
  server.start_with(the_operator.configuration(server.store_folder()));
  const std::string key = server.access("tuner").key, file = server.folder() + "/user.creds";
  // How a connection with the file fails. No message has a secret of it.
  const std::string good = TestOperator::user(the_operator.account);
  const auto failure = [&] {
    Access access;
    access.url = server.url(), access.key = key, access.credentials_file = file;
    const auto bus = Bus::connect(access, "test");
    REQUIRE(!bus);
    CHECK(bus.error().hint != "");
    CHECK_THAT(bus.error().message + bus.error().hint,
               Contains("'" + file + "'") && !Contains("SUA") && !Contains("eyJ"));
    return bus.error().message;
  };
  const auto with = [&](const std::string& credentials) {
    REQUIRE(write_file(file, credentials));
    return failure();
  };
  // `text` with another character some places behind the start of `part`.
  const auto damaged = [&](const std::string& part, size_t behind) {
    std::string text = good;
    char& c = text.at(text.find(part) + behind);
    c = c == 'B' ? 'C' : 'B';
    return text;
  };
  const auto is_refused = Contains("refused the user of the credentials in");
  CHECK_THAT(with(TestOperator::user(NKey(NKeyRole::kAccount, 'b'))), is_refused);  // an account of nobody
  CHECK_THAT(with(TestOperator::user(the_operator.account, {{"exp", 2}})), is_refused);
  CHECK_THAT(with(damaged("eyJ", 80)), is_refused);
  const std::string expected = "expected the credentials of a NATS user in";
  CHECK_THAT(with(damaged("\nSUA", 20)), Contains(expected) && Contains("invalid checksum"));
  CHECK_THAT(with(good.substr(0, good.find("\n\n"))), Contains(expected) && Contains("no nkey user seed found"));
  CHECK_THAT(with(good.substr(good.find("\n\n"))), Contains(expected) && Contains("found no token"));
  CHECK_THAT(with("hello\n"), Contains(expected));
  CHECK_THAT(with(good.substr(good.find("eyJ"))), Contains(expected));  // the seed's heading is the first
  CHECK_THAT(with(""), Contains(expected));
  REQUIRE(unlink(file.c_str()) == 0);
  CHECK_THAT(failure(), Contains("No such file"));

  for (const char* role : {"tuner", "worker"}) {
    REQUIRE(write_file(server.secrets(role), "key " + key + "\ncredentials_file user.creds\n"));
    REQUIRE(chmod(server.secrets(role).c_str(), 0600) == 0);
  }
  REQUIRE(write_file(file, good));
  REQUIRE(ensure_streams(*server.connect_as("tuner")));
  WorkerThread worker(server, "a", make_fake_runner(0));
  auto measured = open_tuner(server, "run")->measure(some_candidates(20));
  if (!measured) FAIL(measured.error().message);
  CHECK(measured->size() == 20);
  const auto report = worker.stop();
  REQUIRE(report);
  CHECK(report->done == 20);
}

TEST_CASE("TLS: the authority and the name of the host are checked", "[errors]") {
  NEED_FLEET();
  if (std::system("openssl version >/dev/null 2>&1") != 0) SKIP("openssl is not installed");
  auto folder = TemporaryDirectory::create("tcc-fleet-tls-");
  REQUIRE(folder);
  const std::string at = (*folder)->path();
  const auto certificate = [&](const std::string& name, const std::string& host) {
    const std::string command = fmt::format(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={1} "
        "-addext subjectAltName=DNS:{1} -keyout {0}/{2}.key -out {0}/{2}.pem >/dev/null 2>&1",
        at, host, name);
    REQUIRE(std::system(command.c_str()) == 0);
  };
  certificate("good", "localhost");
  certificate("other", "localhost");
  ServerOptions options;
  options.certificate_file = at + "/good.pem", options.key_file = at + "/good.key", options.ca_file = at + "/good.pem";
  Server server(options);
  Access access = server.access("tuner");
  access.url = server.url("tls", "localhost");
  auto bus = Bus::connect(access, "test");
  if (!bus) FAIL(bus.error().message);
  CHECK(ensure_streams(**bus));

  access.url = server.url("tls", "127.0.0.1");  // another name than the certificate's
  bus = Bus::connect(access, "test");
  REQUIRE(!bus);
  CHECK_THAT(bus.error().message, Contains("no encrypted connection as expected"));
  CHECK_THAT(bus.error().hint, Contains("for the host of the address"));

  access.url = server.url("tls", "localhost"), access.ca_file = at + "/other.pem";
  bus = Bus::connect(access, "test");
  REQUIRE(!bus);
  CHECK_THAT(bus.error().message, Contains("no encrypted connection as expected"));

  access = server.access("tuner");
  access.url = server.url("nats", "localhost");  // the server wants TLS
  bus = Bus::connect(access, "test");
  REQUIRE(!bus);
}

TEST_CASE("a store that is full is said to be full", "[errors]") {
  NEED_FLEET();
  Server server;
  auto bus = server.connect_as("tuner");
  REQUIRE(
      bus->ensure_stream({.name = "SMALL", .subjects = {"tcc.small"}, .refuse_when_full = true, .max_messages = 1}));
  REQUIRE(bus->store("tcc.small", "a", ""));
  const auto full = bus->store("tcc.small", "b", "");
  REQUIRE(!full);
  CHECK_THAT(full.error().message, Contains("full"));
}

TEST_CASE("files of a server: secrets are for their owner, and a network needs TLS", "[errors]") {
  auto folder = TemporaryDirectory::create("tcc-fleet-files-");
  REQUIRE(folder);
  ServerOptions options;
  options.folder = (*folder)->path() + "/fleet";
  options.host = "0.0.0.0";
  CHECK_THAT(write_server_files(options).error().message, Contains("without TLS"));
  options.host = "127.0.0.1";
  REQUIRE(write_server_files(options));
  Access first, second;
  REQUIRE(read_secrets(options.folder + "/worker.secrets", first));
  REQUIRE(write_server_files(options));  // they stay
  REQUIRE(read_secrets(options.folder + "/worker.secrets", second));
  CHECK(first.password == second.password);
  CHECK(first.key.size() == 64);
  chmod((options.folder + "/worker.secrets").c_str(), 0644);
  CHECK_THAT(read_secrets(options.folder + "/worker.secrets", first).error().message, Contains("others may read"));
  unlink((options.folder + "/tuner.secrets").c_str());
  chmod((options.folder + "/worker.secrets").c_str(), 0600);
  REQUIRE(write_server_files(options));  // one that is missing is made, with the key of the others
  REQUIRE(read_secrets(options.folder + "/tuner.secrets", second));
  CHECK(second.key == first.key);
}
