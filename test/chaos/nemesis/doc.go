// Package nemesis does to processes and networks what may happen to them.
//
// A Fault has a beginning, a time that it lasts, and an end after which all is as
// before. Run draws faults from a catalog, several at a time but one for each
// target, by a seed: the same seed has the same faults, of the same length, in
// the same order; when each of them hits whom, the machine decides.
//
// To add a fault, write a function that returns its Fault beside the others in
// faults.go, and have the stage put it into its catalog.
package nemesis
