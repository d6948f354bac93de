// Package testenv gives tests real servers, and links to them that can be cut.
//
// A server is looked for in this order: an address in the environment
// (FENCE_TEST_POSTGRES_URL, FENCE_TEST_ETCD_ENDPOINTS, FENCE_TEST_REDIS_ADDR,
// FENCE_TEST_ZOOKEEPER_ADDR, FENCE_TEST_S3_URL);
// a program on this machine (in .bin, where `make servers` puts it, or where
// Debian does), which is started on a free loopback port; a container, if a
// Docker engine answers: a single server of the public image. It can be killed,
// frozen (docker pause) and restarted like others, but several servers in
// containers do not reach each other. FENCE_TEST_DOCKER=1 has all servers run in
// containers, and tests that need others are skipped.
// Where none is found the test is skipped and says so, or fails if
// FENCE_TEST_REQUIRE is 1.
//
// Servers that several tests of a package share run until [Run] ends; private
// ones (StartPostgres, StartEtcd, StartRedis, StartS3) end with their test. All of them
// die with the test process, however it ends. Linux only.
//
// How a program is found, started and ended is localserver's business, and what
// a link does that of packages link and s3link; here is what a test sees of them.
package testenv
