package worker

import (
	"time"

	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// Arg is the only argument of a test program that is to be a worker.
const Arg = "chaos-worker"

// Patience is how long anything of a worker's may take before it gives up.
const Patience = 5 * time.Second

// Job is the first line that a worker reads.
type Job struct {
	// Name is that of its history, in the folder History.
	Name    string `json:"name"`
	History string `json:"history"`
	// Seed decides what the worker does; when, the machine decides.
	Seed uint64 `json:"seed"`
	// Hands is how many holders it can be at a time. Defaults to 1.
	Hands int `json:"hands"`
	// TTL is that of its leases.
	TTL time.Duration `json:"ttl"`
	// Resources are what it works on, one after the other.
	Resources []Resource  `json:"resources"`
	Access    ways.Access `json:"access"`
}

// Resource is a lock, and the register that it protects.
type Resource struct {
	Name string `json:"name"`
	// Locks is the URL of its lock service.
	Locks    string        `json:"locks"`
	Register ways.Register `json:"register"`
	// Ways are the ways in, of which each holder takes one.
	Ways []string `json:"ways"`
	// Shared lets some holders be readers.
	Shared bool `json:"shared"`
}
