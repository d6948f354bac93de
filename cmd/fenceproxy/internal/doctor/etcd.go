package doctor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
)

func (d *lockDoctor) etcd(ctx context.Context) error {
	client, err := d.target.EtcdClient(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := d.etcdTTL(ctx, client); err != nil {
		return err
	}
	if err := d.etcdMembers(ctx, client); err != nil {
		return err
	}
	d.add("clock", levelOK, "", "of no matter: numbers are revisions, and the leader counts how long leases last")
	return nil
}

// etcdTTL asks for the shortest lease, and takes it back.
func (d *lockDoctor) etcdTTL(ctx context.Context, client *clientv3.Client) error {
	lease, err := client.Grant(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := client.Revoke(ctx, lease.ID); err != nil {
		return err
	}
	d.bounds(time.Duration(lease.TTL)*time.Second, 0)
	return nil
}

// memberStatus is a member of an etcd, or why it does not answer.
type memberStatus struct {
	*clientv3.StatusResponse
	err error
}

func (d *lockDoctor) etcdMembers(ctx context.Context, client *clientv3.Client) error {
	list, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(list.Members, func(a, b *etcdserverpb.Member) int { return strings.Compare(a.Name, b.Name) })
	var all sync.WaitGroup
	status := make([]memberStatus, len(list.Members))
	for i, member := range list.Members {
		all.Go(func() {
			limited, cancel := context.WithTimeout(ctx, connect.AnswerLimit)
			defer cancel()
			status[i] = memberAnswer(limited, client, member)
		})
	}
	all.Wait()
	there := 0
	for i, member := range list.Members {
		if err := status[i].err; err != nil {
			d.addOf(member.Name, "member", levelWarning, "start it, or remove it from the cluster", "does not answer here: %v", cli.Innermost(err))
			continue
		}
		there++
		d.etcdMember(member.Name, status[i].StatusResponse)
	}
	switch n := len(list.Members); {
	case n == 1:
		d.add("members", levelNote, "three, where locks must outlive a machine", "one: no lock can be had while it is away")
	case there <= n/2+1 && there < n:
		d.add("members", levelWarning, "", "%d of %d are there: one less, and there is no quorum", there, n)
	case n%2 == 0:
		d.add("members", levelNote, "an odd number", "%d: no more may be away than of %d", n, n-1)
	default:
		d.add("members", levelOK, "", "%d", n)
	}
	return nil
}

// memberAnswer asks a member at the addresses that it gives itself. Where none is
// reached from here, as behind a tunnel, its error is that of the last.
func memberAnswer(ctx context.Context, client *clientv3.Client, member *etcdserverpb.Member) memberStatus {
	var s memberStatus
	for _, url := range member.ClientURLs {
		if s.StatusResponse, s.err = client.Status(ctx, url); s.err == nil {
			return s
		}
	}
	if len(member.ClientURLs) == 0 {
		s.err = rpctypes.ErrGRPCMemberNotEnoughStarted
	}
	return s
}

func (d *lockDoctor) etcdMember(name string, s *clientv3.StatusResponse) {
	switch {
	case len(s.Errors) > 0:
		d.addOf(name, "member", levelWrong, "etcdctl alarm list", "etcd %s: %s", s.Version, strings.Join(s.Errors, ", "))
	case s.Leader == 0:
		d.addOf(name, "member", levelWrong, "", "etcd %s, which has no leader", s.Version)
	case s.IsLearner:
		d.addOf(name, "member", levelNote, "", "etcd %s, a learner", s.Version)
	case s.Leader == s.Header.MemberId:
		d.addOf(name, "member", levelOK, "", "etcd %s, the leader", s.Version)
	default:
		d.addOf(name, "member", levelOK, "", "etcd %s", s.Version)
	}
}
