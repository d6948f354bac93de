// Package testenv gives tests real servers, and links to them that can be cut.
//
// A server is looked for in this order: an address in the environment
// (FENCE_TEST_POSTGRES_URL, FENCE_TEST_ETCD_ENDPOINTS, FENCE_TEST_REDIS_ADDR);
// a program on this machine (in .bin, where `make servers` puts it, or where
// Debian does), which is started on a free loopback port; a container, if a
// Docker engine answers.
// Where none is found the test is skipped and says so, or fails if
// FENCE_TEST_REQUIRE is 1.
//
// Docker is asked through its command line and not through testcontainers-go:
// the module graph of that library, engine client and all, would be inherited
// by everybody who requires this module.
//
// Servers that several tests of a package share run until [Run] ends; private
// ones (StartPostgres, StartEtcd, StartRedis) end with their test. All of them die with the
// test process, however it ends. Linux only.
package testenv
