// Package chaos tries to break what docs/guarantees.md promises.
//
//	make chaos                            a minute of faults, the control group, some planted holes
//	make chaos DURATION=30m SEED=7        longer, with all holes; the same seed has the same faults in the same order
//	make chaos ARGS='-run TestChaos'      the faults alone
//
// Worker processes acquire a lock, claim, read, write and release, each in one of
// many ways in, while a nemesis does to them, to proxies, servers and the network
// whatever may happen. What they were told is in their histories, what was applied
// the registers themselves remember, and the checks compare the two:
//
//	stage    servers, links, proxies, worker processes; a Round on them
//	worker   what a worker does                     history  what it was told
//	ways     the ways in                            check    what must not be
//	nemesis  the faults                             report   a table for people
//	plant    holes to be found
//
// A run proves something only if its control group (TestControlGroup: the same
// with ways that are no fence) and the holes that are planted (TestPlantedBugs)
// show violations. Their reports, for people and as JSON, are in .bin/chaos,
// written anew after every round, so that they are there however a run ends; an
// interrupt ends it after the round that it is in. Below _artifacts are the logs
// of the proxies and, of the rounds in which something was found, the histories
// and the pictures of registers that are not linearizable.
//
// A run is rounds of less than a minute, so that a long one needs no more memory
// or room than a short one. In every other one Postgres has a synchronous standby
// that is promoted. An asynchronous one is not: it loses what was acknowledged, as
// docs/guarantees.md says. Where nothing can be mounted no disk is full, and the
// report says so; the same seed has the same faults only where the same can be.
//
// To add a way in: implement ways.Way and ways.Tenure, put it into the table in
// ways/open.go and into the plans of run_test.go, and plant a hole for it in
// plant/hole.go. To add a fault: a function that returns a nemesis.Fault, and a
// line in the stage that appends it to the catalog.
//
// Beside that program there are stress tests of Postgres and its proxy alone
// (make stress).
package chaos
