package poll

import (
	"io"
	"testing"
)

// TestOnHangUp: it is told once, also of an end that comes behind unread bytes,
// and of one that came before anybody asked.
func TestOnHangUp(t *testing.T) {
	t.Parallel()
	for _, network := range networks {
		conn, other := adopted(t, &Loop{}, network)
		told := make(chan struct{}, 3)
		conn.OnHangUp(func() { told <- struct{}{} })
		if _, err := other.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if len(told) > 0 {
			t.Error("it has not hung up")
		}
		if _, err := other.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		other.Close()
		await(t, "it is told", told)
		late := make(chan struct{}, 1)
		conn.OnHangUp(func() { late <- struct{}{} })
		await(t, "it is told late", late)
		if b, err := io.ReadAll(conn); string(b) != "unread" || err != nil {
			t.Errorf("what it sent before is %q, %v", b, err)
		}
		if len(told) > 0 {
			t.Error("told twice")
		}
	}
}
