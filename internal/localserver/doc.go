// Package localserver runs programs that live no longer than this process:
// servers on loopback, and the demo's workers.
//
// Start runs any program, StartLogged one with its output in a file. Above
// them, Postgres and StartEtcd are the servers as the demo wants them, Cluster
// and Etcd the same with what tests do to servers: stop, kill, freeze and start
// again.
//
// A program that was started here is told to end when this process dies,
// however it dies (Linux; elsewhere only an orderly end is covered). Servers
// listen on loopback alone, on a free port, with their data in a folder that
// the caller names and removes. Where this process is root, servers that refuse
// to run as root run as another user (Account), from a copy of their programs
// if root alone can reach them.
package localserver
