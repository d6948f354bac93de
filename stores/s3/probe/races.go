package probe

import (
	"context"
	"fmt"
	"sync"
)

// racesOf are the checks that only one of many writes at the same time meets
// its condition.
func racesOf(s *store, put, complete writer) []check {
	var all []check
	race := func(name, asked string, create bool, writers ...writer) {
		row := Row{Name: "race/" + name, Operation: writers[0].operation, Framed: true, Asked: fmt.Sprintf("of %d %s, one wins", s.config.Parallel, asked)}
		if len(writers) > 1 {
			row.Operation = "PutObject, CompleteMultipartUpload"
		}
		all = append(all, check{row, func(ctx context.Context) (Result, string) { return s.race(ctx, create, writers) }})
	}
	race("create-put", "creates at once", true, put)
	race("create-complete", "creates at once", true, complete)
	race("swap-put", "overwrites with one ETag at once", false, put)
	race("swap-complete", "overwrites with one ETag at once", false, complete)
	race("create-both", "creates at once", true, put, complete)
	race("swap-both", "overwrites with one ETag at once", false, put, complete)
	return all
}

// race runs the rounds of one race, until one is lost.
func (s *store) race(ctx context.Context, create bool, writers []writer) (result Result, said string) {
	for range s.config.Rounds {
		if result, said = s.round(ctx, create, writers); result != Honoured {
			return result, said
		}
	}
	if s.config.Rounds > 1 {
		said += fmt.Sprintf(", in the last of %d rounds", s.config.Rounds)
	}
	return result, said
}

// racer is one of those who write at once.
type racer struct {
	content string
	send    func(context.Context, condition) answer
	answer  answer
}

func (s *store) round(ctx context.Context, create bool, writers []writer) (Result, string) {
	key, c := s.fresh(), condition{absent: true}
	if !create {
		made := s.put(ctx, key, fill(), condition{})
		if made.err != nil {
			return Unknown, "make an object: " + made.String()
		}
		c = condition{match: made.etag}
	}
	racers := make([]racer, s.config.Parallel)
	if a := prepare(ctx, key, racers, writers); a.err != nil {
		return Unknown, "prepare: " + a.String()
	}
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		all.Go(func() {
			<-start
			racers[i].answer = racers[i].send(ctx, c)
		})
	}
	close(start)
	all.Wait()
	got, _, read := s.read(ctx, key)
	if read.err != nil && !read.absent() {
		return Unknown, "read it back: " + read.String()
	}
	return judge(racers, got)
}

// prepare has everything ready that is not part of the race, in parallel too.
func prepare(ctx context.Context, key string, racers []racer, writers []writer) answer {
	var all sync.WaitGroup
	failed := make([]answer, len(racers))
	for i := range racers {
		all.Go(func() {
			racers[i].content = fill()
			for range attempts {
				racers[i].send, failed[i] = writers[i%len(writers)].prepare(ctx, key, racers[i].content)
				if failed[i].err == nil || ctx.Err() != nil {
					break
				}
			}
		})
	}
	all.Wait()
	for _, a := range failed {
		if a.err != nil {
			return a
		}
	}
	return answer{}
}

// judge says who won, given what the key holds now.
func judge(racers []racer, got string) (Result, string) {
	var won, lost, conflicts, open int
	var winner, holder, odd *racer
	for i := range racers {
		r := &racers[i]
		switch {
		case r.answer.err == nil:
			won++
			winner = r
		case r.answer.refused():
			lost++
		case r.answer.conflict():
			conflicts++
		default:
			open++
			odd = r
		}
		if r.content == got {
			holder = r
		}
	}
	said := fmt.Sprintf("%d won, %d × 412", won, lost)
	if conflicts > 0 {
		said += fmt.Sprintf(", %d × 409", conflicts)
	}
	if open > 0 {
		said += fmt.Sprintf(", %d × %v", open, odd.answer)
	}
	switch {
	case won > 1:
		return Violated, said
	case won == 1 && holder != winner:
		return Violated, said + ", and another one's write is there"
	case holder != nil && (holder.answer.refused() || holder.answer.conflict()):
		return Violated, said + ", and the write of one that lost is there"
	case won == 1, holder != nil: // its reply got lost
		return Honoured, said
	default:
		return Unknown, said
	}
}
